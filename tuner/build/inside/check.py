"""Runs a recipe's checks inside an engine.

A check may bring the whole process down (a library that crashes as it loads), so the checks run in a
child that reports each as it goes; when it dies, the check in hand has failed and a new child goes on
with the next.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import json
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from .apply import fill, matches
from .probe import RESULT

_LAST_LINES = 3


class CheckFailed(Exception):
    """Something is not as the recipe says."""


def main(argv: list[str]) -> int:
    """Check what the plan says for a time and print the results: ``check PLAN.json build|verify``.

    With a number after it, be the child that starts there. The exit status is 0 whatever the checks
    found: they did their work.
    """
    plan_file, when = argv[:2]
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    plan["checks"] = [check for check in plan["checks"] if check["when"] in (when, "both")]
    if len(argv) > 2:
        _child(plan, int(argv[2]))
        return 0
    results: list[dict[str, Any]] = []
    while len(results) < len(plan["checks"]):
        results += _until_death([plan_file, when], plan, len(results))
    print(RESULT + json.dumps(results))
    return 0


def _until_death(argv: list[str], plan: dict[str, Any], start: int) -> list[dict[str, Any]]:
    """The results of one child, with that of the check that killed it."""
    command = [sys.executable, "-m", __package__ or "tuner_inside", "check", *argv, str(start)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    lines = ended.stdout.decode("utf-8", "replace").splitlines()
    results = [json.loads(line[len(RESULT) :]) for line in lines if line.startswith(RESULT)]
    at = start + len(results)
    if at < len(plan["checks"]):
        last = " | ".join([line for line in lines if not line.startswith(RESULT)][-_LAST_LINES:])
        detail = f"the interpreter ended with status {ended.returncode}: {last}"
        results.append({"name": plan["checks"][at]["name"], "ok": False, "detail": detail})
    return results


def _child(plan: dict[str, Any], start: int) -> None:
    for check in plan["checks"][start:]:
        ok, detail = True, ""
        try:
            detail = _CHECKS[check["do"]](check, plan)
        except CheckFailed as error:
            ok, detail = False, str(error)
        except BaseException as error:  # noqa: BLE001 - an engine's import may raise anything, SystemExit included
            last = traceback.format_exception_only(type(error), error)[-1].strip()
            ok, detail = False, last
        print(
            "\n" + RESULT + json.dumps({"name": check["name"], "ok": ok, "detail": detail}),
            flush=True,
        )


def _import(check: dict[str, Any], _plan: dict[str, Any]) -> str:
    module = importlib.import_module(check["module"])
    if check["version"] is None:
        return "imports"
    version = str(
        getattr(module, "__version__", None) or importlib.metadata.version(check["module"])
    )
    if _public(version) != _public(check["version"]):
        raise CheckFailed(f"{check['module']} is {version}, not {check['version']}")
    return version


def _public(version: str) -> str:
    return version.partition("+")[0]


def _callable(check: dict[str, Any], _plan: dict[str, Any]) -> str:
    module, _, path = check["target"].partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    if not callable(found):
        raise CheckFailed(f"{check['target']} is there and cannot be called")
    return "callable"


def _plugin(check: dict[str, Any], _plan: dict[str, Any]) -> str:
    group = list(importlib.metadata.entry_points(group=check["group"]))
    for entry in group:
        if entry.name == check["entry"]:
            entry.load()
            return entry.value
    known = ", ".join(sorted(entry.name for entry in group)) or "none"
    raise CheckFailed(f"no entry point {check['entry']} in {check['group']}: there are {known}")


def _library(check: dict[str, Any], _plan: dict[str, Any]) -> str:
    ctypes.CDLL(check["library"])
    return "loads"


def _text(check: dict[str, Any], plan: dict[str, Any]) -> str:
    file = fill(check["file"], plan)
    text = Path(file).read_text(encoding="utf-8", errors="replace")
    if check["has"].strip() not in {line.strip() for line in text.split("\n")}:
        raise CheckFailed(f"{file}: no line {check['has'].strip()!r}")
    return "has the line"


def _line_ends(check: dict[str, Any], plan: dict[str, Any]) -> str:
    seen = 0
    for pattern in check["files"]:
        filled = fill(pattern, plan)
        found = [Path(path) for path in matches(filled) if Path(path).is_file()]
        if not found:
            raise CheckFailed(f"nothing matches {filled}")
        for path in found:
            raw = path.read_bytes()
            if b"\r\n" in raw:
                line = raw.count(b"\n", 0, raw.index(b"\r\n")) + 1
                raise CheckFailed(f"{path}:{line}: CRLF line ends")
        seen += len(found)
    return f"{seen} files"


def _file(check: dict[str, Any], plan: dict[str, Any]) -> str:
    path = Path(fill(check["file"], plan))
    if not path.exists():
        dangling = " (a link to nothing)" if path.is_symlink() else ""
        raise CheckFailed(f"{path} is not there{dangling}")
    return str(path.resolve())


def _command(check: dict[str, Any], plan: dict[str, Any]) -> str:
    argv = [fill(word, plan) for word in check["argv"]]
    ended = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=check["timeout_s"],
        check=False,
    )
    output = ended.stdout.decode("utf-8", "replace").strip()
    last = " | ".join(output.splitlines()[-_LAST_LINES:])
    if ended.returncode != 0:
        raise CheckFailed(f"{argv[0]} ended with status {ended.returncode}: {last}")
    if check["prints"] is not None and check["prints"] not in output:
        raise CheckFailed(f"{argv[0]} does not print {check['prints']!r}: {last}")
    return last


_CHECKS = {
    "import": _import,
    "callable": _callable,
    "plugin": _plugin,
    "library": _library,
    "text": _text,
    "line-ends": _line_ends,
    "file": _file,
    "command": _command,
}
