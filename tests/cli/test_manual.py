from __future__ import annotations

from tuner.cli.manual import PAGE, manual


def test_the_page_of_all_commands_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == manual(), "run: python -m tuner.cli.manual"


def test_every_command_has_an_example() -> None:
    sections = manual().split("\n## ")[1:]
    assert [s.splitlines()[0] for s in sections if "```sh" not in s] == []
