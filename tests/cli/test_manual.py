from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command

from tuner.cli import register
from tuner.cli.main import app
from tuner.cli.manual import PAGE, manual


def test_the_page_of_all_commands_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == manual(), "run: python -m tuner.cli.manual"


def test_every_command_has_an_example() -> None:
    sections = manual().split("\n## ")[1:]
    assert [s.splitlines()[0] for s in sections if "```sh" not in s] == []


def commands(group: Any, path: str = "tuner") -> Iterator[tuple[str, Any, Any]]:
    """Every command with its path and the group that lists it."""
    for name, command in group.commands.items():
        yield f"{path} {name}", command, group
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")


def test_no_first_sentence_is_cut_in_a_list_of_commands() -> None:
    if not app.registered_commands:
        register.commands(app)
    for path, command, group in commands(get_command(app)):
        room = 80 - 2 - 6 - max(map(len, group.commands))  # as the list is laid out
        said = command.get_short_help_str(room)
        assert not said.endswith("..."), f"{path}: {said}"


def test_no_usage_shows_brackets_twice() -> None:
    if not app.registered_commands:
        register.commands(app)
    for path, command, _ in commands(get_command(app)):
        usage = command.get_usage(typer.Context(command, info_name=path))
        assert "[[" not in usage, usage
        assert "{[" not in usage, usage
