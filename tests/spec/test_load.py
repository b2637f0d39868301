from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spec.mistakes import Mistake, mistakes
from tuner.errors import SpaceError
from tuner.spec import Context, SearchSpace, load_space, parse_space, supported

Build = Callable[..., SearchSpace]


@pytest.mark.parametrize("mistake", mistakes(), ids=str)
def test_each_mistake_has_its_line_its_sentence_and_its_mend(
    build: Build, mistake: Mistake
) -> None:
    with pytest.raises(SpaceError, match=f"space.yaml:{re.escape(mistake.said)}$"):
        build(mistake.text)


def test_a_misspelt_key_is_named_first_and_not_the_missing_one(build: Build) -> None:
    with pytest.raises(SpaceError, match=r"unknown key budgett — did you mean budget\?"):
        build("budgett: {trials: 1}")


def test_a_missing_file_is_said_with_its_line(build: Build, tmp_path: Path) -> None:
    text = """
        engine:
          recipe: cpu
          model: {make: tiny-hybrid}
          flags:
            --chat-template: {file: gone.jinja}
        """
    with pytest.raises(SpaceError) as caught:
        build(text)
    assert caught.value.line == 6
    assert str(tmp_path / "gone.jinja") in str(caught.value)


def test_values_do_not_show_in_messages_about_secrets(build: Build) -> None:
    with pytest.raises(SpaceError) as caught:
        build("engine: {recipe: cpu, model: {make: x}, env: {HF_TOKEN: canary-1234}}")
    assert "canary-1234" not in str(caught.value)


def test_loading_from_a_file_and_from_its_text_is_the_same(tmp_path: Path) -> None:
    from_checkout = Path("search_spaces/local_cpu.yaml")
    found = load_space(from_checkout)
    again = parse_space(found.text, tmp_path / "copy.yaml", relative_to=from_checkout.parent)
    assert again.fingerprint == found.fingerprint


def test_paths_can_be_relative_to_another_folder(tmp_path: Path, build: Build) -> None:
    (tmp_path / "a.jinja").write_text("x")
    text = build(
        "engine: {recipe: cpu, model: {make: x}, flags: {--chat-template: {file: a.jinja}}}"
    ).text
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    copy = elsewhere / "space.yaml"
    copy.write_text(text)
    with pytest.raises(SpaceError, match=r"there is no file a\.jinja"):
        load_space(copy)
    assert load_space(copy, relative_to=tmp_path).files["a.jinja"].path == tmp_path / "a.jinja"


def test_what_this_version_cannot_run_can_be_read_on_demand(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supported, "LAUNCHES", frozenset({"process"}))
    text = "engine: {recipe: cuda, model: {path: /m}, launch: docker}"
    with pytest.raises(SpaceError, match="cannot be run by this version"):
        build(text)
    assert build(text, any_version=True).engine.launch == "docker"


def test_a_space_that_asks_about_the_machine_is_checked_against_one(
    build: Build, context: Callable[..., Context]
) -> None:
    from tuner.spec import check

    space = build(
        """
        parameters:
          seqs: {flag: --max-num-seqs, choices: [1, 2], baseline: 1}
        rules:
          - forbid: seqs / hardware.devices > 1
            reason: too many
        """
    )
    check(space, context(space, devices=2))
    with pytest.raises(SpaceError, match=r"1 / 0 has no value \(with hardware.devices = 0, seqs"):
        check(space, context(space, devices=0))
