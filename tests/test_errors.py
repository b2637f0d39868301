"""What was raised on purpose is told as itself, however deep a task group wrapped it."""

from __future__ import annotations

import ast
import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import anyio
import httpx
import pytest
from fastapi import FastAPI

from tuner.cli import main, register
from tuner.daemon.problems import install
from tuner.errors import (
    NoSpaceLeft,
    NothingFeasible,
    TelemetryLost,
    TunerError,
    UserError,
    last_words,
    on_purpose,
    ungrouped,
)

SOURCE = Path(__file__).parents[1] / "tuner"


async def by_asyncio(*errors: BaseException) -> None:
    async with asyncio.TaskGroup() as group:
        for error in errors:
            group.create_task(failing(error))


async def by_anyio(*errors: BaseException) -> None:
    async with anyio.create_task_group() as group:
        for error in errors:
            group.start_soon(failing, error)


async def nested(*errors: BaseException) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(by_anyio(*errors))


async def failing(error: BaseException) -> None:
    raise error


WAYS = [by_asyncio, by_anyio, nested]


def a_full_disk() -> NoSpaceLeft:
    return NoSpaceLeft("the disk is full", mend="free some")


@pytest.mark.parametrize("way", WAYS)
def test_an_error_on_purpose_leaves_its_groups(
    way: Callable[..., Coroutine[None, None, None]],
) -> None:
    with pytest.raises(NoSpaceLeft, match=r"^the disk is full — free some$") as caught, ungrouped():
        asyncio.run(way(a_full_disk()))
    assert last_words(caught.value) == "tuner: the disk is full — free some"


@pytest.mark.parametrize("way", WAYS)
def test_a_defect_stays_a_group_whatever_stands_beside_it(
    way: Callable[..., Coroutine[None, None, None]],
) -> None:
    with pytest.raises(ExceptionGroup), ungrouped():
        asyncio.run(way(a_full_disk(), ZeroDivisionError("a defect")))


def test_several_are_all_said_and_the_same_one_once() -> None:
    with pytest.raises(NoSpaceLeft) as caught, ungrouped():
        raise ExceptionGroup(
            "outer",
            [a_full_disk(), ExceptionGroup("inner", [TelemetryLost("no driver"), a_full_disk()])],
        )
    assert last_words(caught.value).splitlines() == [
        "tuner: the disk is full — free some",
        "tuner: no driver",
    ]


def test_what_is_no_group_passes() -> None:
    with ungrouped():
        pass
    for error in (a_full_disk(), ZeroDivisionError("a defect"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, ungrouped():
            raise error
        assert caught.value is error
    assert on_purpose(ZeroDivisionError()) == ()


@pytest.mark.parametrize(
    ("errors", "code", "said"),
    [
        ([a_full_disk()], 2, "tuner: the disk is full — free some\n"),
        ([NothingFeasible("nothing passed")], 3, "tuner: nothing passed\n"),
        ([ExceptionGroup("", [TunerError("deep")])], 1, "tuner: deep\n"),
        ([UserError("one"), TunerError("two")], 2, "tuner: one\ntuner: two\n"),
    ],
)
def test_a_command_ends_with_the_line_and_the_exit_code(
    errors: list[Exception],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise ExceptionGroup("unhandled errors in a TaskGroup", errors)

    monkeypatch.setattr(main, "app", fail)
    monkeypatch.setattr(register, "commands", lambda _: None)
    with pytest.raises(SystemExit) as ended:
        main.run()
    assert ended.value.code == code
    assert capsys.readouterr().err == said
    assert sys.exc_info() == (None, None, None)


def test_the_api_tells_it_as_a_problem_and_a_defect_as_a_defect() -> None:
    app = FastAPI()
    install(app)

    @app.get("/{kind}")
    def fail(kind: str) -> None:
        one = a_full_disk() if kind == "full" else ZeroDivisionError("a defect")
        raise ExceptionGroup("unhandled errors in a TaskGroup", [one])

    async def ask(path: str) -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://tuner") as client:
            return await client.get(path)

    full, defect = asyncio.run(ask("/full")), asyncio.run(ask("/defect"))
    assert (full.status_code, full.json()["detail"]) == (422, "the disk is full — free some")
    assert (defect.status_code, "defect of tuner" in defect.json()["detail"]) == (500, True)


def groups(tree: ast.AST) -> Iterator[ast.AsyncWith]:
    """Where a block waits for several tasks, and wraps what they raise."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncWith) and "TaskGroup" in (said := ast.unparse(node.items[0])):
            assert "(" in said
            yield node


@pytest.mark.slow
def test_each_task_group_stands_inside_ungrouped() -> None:
    found = 0
    for file in SOURCE.rglob("*.py"):
        text = file.read_text()
        assert "create_task_group" not in text, f"{file}: anyio's groups are not looked for here"
        tree = ast.parse(text)
        inside = {
            id(group)
            for block in ast.walk(tree)
            if isinstance(block, ast.With) and "ungrouped()" in ast.unparse(block.items[0])
            for group in groups(block)
        }
        for group in groups(tree):
            found += 1
            assert id(group) in inside, (
                f"{file}:{group.lineno}: what it wraps is not told as itself"
            )
    assert found
