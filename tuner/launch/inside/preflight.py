"""Runs in the engine's own environment and says whether the engine would take a configuration.

One request a line on stdin, one answer a line on stdout, both JSON. Nothing is allocated and no
model is loaded: the engine's own argument parser and its own configuration checks are called, and
what they say is passed on word for word. Where this version of the engine keeps them elsewhere,
the first line says so and the process ends.

Each question is answered by a fork of the warm process. The engine's configuration objects share
mutable defaults (in vLLM 0.32 an unknown ``--reasoning-parser`` is still there in the next parse),
so an answer given in the process itself could be about the question before.

The first answer says whether it can answer, and where the engine's package is imported from: ``{"ready": true,
"package": {"path": "/path/vllm/__init__.py", "own": true}}``. A package that is neither in a folder for packages nor
in one that the environment names, nor installed as an editable source tree, is not the environment's own.

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
import importlib.metadata
import importlib.util
import inspect
import io
import json
import os
import signal
import site
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

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


def package() -> dict[str, Any] | None:
    """Where the engine's package is imported from, and whether that is its environment's; None without one."""
    try:
        found = importlib.util.find_spec("vllm")
    except (ImportError, ValueError):
        found = None
    if found is None:
        return None
    places = [found.origin] if found.origin else list(found.submodule_search_locations or ())
    return {"path": places[0], "own": any(within(places[0], home) for home in homes())}


def homes() -> Iterator[str]:
    """The folders whose packages are the environment's own."""
    yield from site.getsitepackages()
    if site.ENABLE_USER_SITE:
        yield site.getusersitepackages()
    yield from (sysconfig.get_path(name) for name in ("purelib", "platlib"))
    # What sets a variable here is the recipe, or the image: both declare what the engine is.
    yield from filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    for distribution in importlib.metadata.distributions():
        if (distribution.metadata["Name"] or "").lower().startswith("vllm"):
            origin = json.loads(distribution.read_text("direct_url.json") or "{}")
            if origin.get("dir_info", {}).get("editable"):
                yield unquote(urlsplit(origin["url"]).path)


def within(path: str, home: str) -> bool:
    """Whether a file lies in a folder, by the path it is found at or by the one that links lead to."""
    inside = Path(home).resolve()
    ways = (Path(path).parent.parent.resolve() / Path(path).parent.name, Path(path).resolve())
    return any(way.is_relative_to(inside) for way in ways)


def forget_own_folder() -> None:
    """Import nothing from beside this script: in an image that may be the root, with a source tree in it."""
    if sys.path and Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
        del sys.path[0]


def main() -> None:
    """Answer requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever the engine prints must not be taken for an answer
    forget_own_folder()
    said: dict[str, Any] = {"ready": True, "package": package()}
    try:
        asker = Asker()
    except Exception as error:  # noqa: BLE001 - said, not hidden: the caller falls back to a start
        said |= {"ready": False, "error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(said) + "\n")
        return
    answers.write(json.dumps(said) + "\n")
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
