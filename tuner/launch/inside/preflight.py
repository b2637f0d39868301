"""Runs in the engine's own environment and says whether the engine would take a configuration.

One request a line on stdin, one answer a line on stdout, both JSON. Nothing is allocated and no
model is loaded: the engine's own argument parser and its own configuration checks are called, and
what they say is passed on word for word. Where this version of the engine keeps them elsewhere,
the first line says so and the process ends.

Each question is answered by a fork of the warm process. The engine's configuration objects share
mutable defaults (in vLLM 0.32 an unknown ``--reasoning-parser`` is still there in the next parse),
so an answer given in the process itself could be about the question before.

First line: ``{"model": "/path"}``. Request: ``{"questions": [{"argv": [...], "env": {...}}, ...]}``, answered
by one line for each question, in their order: ``{"ok": true}`` or ``{"ok": false, "error": "..."}``. The
request ``{"flags": true}`` is answered with all flags of the parser: ``{"flags": ["--model", ...]}``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib
import inspect
import io
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

PARSER_HOMES = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
ANSWER_SECONDS = 60
"""After this the kernel ends a check that hangs, also when whoever asked is gone."""
FLEXIBLE_HOMES = ("vllm.utils.argparse_utils", "vllm.utils")


def find(homes: tuple[str, ...], name: str) -> Any:
    """The first of several modules' attribute of that name; versions move them about."""
    for home in homes:
        with contextlib.suppress(ImportError, AttributeError):
            return getattr(importlib.import_module(home), name)
    raise LookupError(f"{name} is in none of {', '.join(homes)}")


class Asker:
    """Calls the engine's own parser and checks."""

    def __init__(self) -> None:
        make = find(PARSER_HOMES, "make_arg_parser")
        flexible = find(FLEXIBLE_HOMES, "FlexibleArgumentParser")
        self.parser: argparse.ArgumentParser = make(flexible())
        self.validate: Callable[[Any], None] | None = None
        with contextlib.suppress(LookupError):
            self.validate = find(PARSER_HOMES, "validate_parsed_serve_args")
        self.engine_args = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs
        self.parsers = self._tool_parsers()

    @staticmethod
    def _tool_parsers() -> Any:
        """A check of parser names, which the server itself makes only when it serves."""
        for home in ("vllm.entrypoints.launchers.launcher", "vllm.entrypoints.openai.api_server"):
            with contextlib.suppress(ImportError, AttributeError):
                return getattr(importlib.import_module(home), "validate_api_server_args")  # noqa: B009
        return lambda _: None

    def ask(self, argv: list[str], env: dict[str, str]) -> dict[str, Any]:
        """Whether the engine would take these flags in this environment."""
        said = io.StringIO()
        os.environ.update(env)
        try:
            with contextlib.redirect_stderr(said):
                self._check(argv)
        except SystemExit:
            return {"ok": False, "error": last_line(said.getvalue())}
        except Exception as error:  # noqa: BLE001 - whatever the engine raises is its answer
            return {"ok": False, "error": f"{type(error).__name__}: {error}"}
        return {"ok": True}

    def _check(self, argv: list[str]) -> None:
        args = self.parser.parse_args(argv)
        if self.validate is not None:
            self.validate(args)
        self.parsers(args)
        config = self.engine_args.from_cli_args(args).create_engine_config()
        if inspect.iscoroutine(config):
            asyncio.run(config)


def last_line(text: str) -> str:
    """The line in which argparse says what is wrong."""
    lines = [line for line in text.splitlines() if "error:" in line] or text.splitlines()
    return lines[-1].strip() if lines else "the engine's parser ended without a word"


def main() -> None:
    """Answer requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever the engine prints must not be taken for an answer
    try:
        asker = Asker()
    except Exception as error:  # noqa: BLE001 - said, not hidden: the caller falls back to a start
        answers.write(
            json.dumps({"ready": False, "error": f"{type(error).__name__}: {error}"}) + "\n"
        )
        return
    answers.write(json.dumps({"ready": True}) + "\n")
    warm = json.loads(sys.stdin.readline() or "{}")
    if "model" in warm:
        # What all questions share (the model's own configuration, lazy imports) is loaded once,
        # before the first fork, by a question that sets nothing else.
        asker.ask(["--model", warm["model"]], {})
    gc.freeze()  # a collection in a child would touch, and so copy, every page of the parent
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("flags"):
            options = [o for action in asker.parser._actions for o in action.option_strings]  # noqa: SLF001
            answers.write(json.dumps({"flags": options}) + "\n")
            continue
        for answer in in_forks(asker, request["questions"]):
            answers.write(answer + "\n")


def in_forks(asker: Asker, questions: list[dict[str, Any]]) -> Iterator[str]:
    """The answers in the order of the questions, as many worked out at a time as there are cores."""
    running: deque[tuple[int, int]] = deque()
    for question in questions:
        if len(running) == len(os.sched_getaffinity(0)):
            yield heard(*running.popleft())
        running.append(in_a_fork(asker, question))
    while running:
        yield heard(*running.popleft())


def in_a_fork(asker: Asker, question: dict[str, Any]) -> tuple[int, int]:
    """A child that answers as one line of JSON and ends, and the pipe that it answers into."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(ANSWER_SECONDS)
        os.close(out)
        with os.fdopen(into, "w") as pipe:
            json.dump(asker.ask(question["argv"], question["env"]), pipe)
        os._exit(0)
    os.close(into)
    return child, out


def heard(child: int, out: int) -> str:
    """What a child answered, once it has ended."""
    with os.fdopen(out) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer or json.dumps(
        {"ok": False, "error": "the engine's own check crashed", "crashed": True}
    )


if __name__ == "__main__":
    main()
