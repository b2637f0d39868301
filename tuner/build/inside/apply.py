"""Applies one step of a plan, and says what is wrong and how to mend it.

``python -m tuner_inside apply PLAN.json NUMBER``, on this machine or in a container's build. The exit
status is 0 when the step was applied; anything else stops the build, and the last lines are then
``error: …`` and, where there is one, ``mend: …``.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from . import patching, wheels

Plan = dict[str, Any]


class StepError(Exception):
    """A step that cannot be applied."""

    def __init__(self, message: str, mend: str | None = None) -> None:
        self.mend = mend
        super().__init__(message)


def main(argv: list[str]) -> int:
    """Apply the step of a plan that the command line names."""
    plan: Plan = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    step: Plan = plan["steps"][int(argv[1])]
    print(
        f"== step {int(argv[1]) + 1} of {len(plan['steps'])}: {step['name']} ({step['do']})",
        flush=True,
    )
    try:
        return _STEPS[step["do"]](plan, step)
    except (StepError, patching.PatchError, wheels.WheelMissing) as error:
        print(f"error: step {step['name']}: {error}")
        if error.mend:
            print(f"mend: {error.mend}")
        return 1


def fill(text: str, plan: Plan) -> str:
    """A text with ``{python}``, ``{site}``, ``{prefix}``, ``{root}``, ``{recipe}`` replaced."""
    known = {
        "python": sys.executable,
        "site": sysconfig.get_paths()["purelib"],
        "prefix": sys.prefix,
        "root": plan["root"],
        "recipe": plan["recipe"],
    }

    def one(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in known:
            raise StepError(f"{{{name}}} is not known", f"known are {', '.join(sorted(known))}")
        return str(known[name])

    return re.sub(r"\{([a-z_]+)\}", one, text)


def matches(pattern: str) -> list[str]:
    """The paths that an absolute pattern matches, in order (Path.glob takes only relative ones)."""
    return sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - see above


def _pip(plan: Plan, step: Plan) -> int:
    argv = [sys.executable, "-m", "pip", "install", "--no-input", "--progress-bar", "off"]
    if not step["deps"]:
        argv.append("--no-deps")
    if plan.get("wheelhouse"):
        argv += ["--no-index", "--find-links", plan["wheelhouse"]]
    elif step.get("index_env") and os.environ.get(step["index_env"]):
        argv += ["--extra-index-url", os.environ[step["index_env"]]]
    if step["source"] is not None:
        # The engine's own tools build it: a build environment of pip's would reach for the network.
        argv += ["--no-build-isolation", str(Path(plan["sources"]) / step["source"])]
    else:
        if plan.get("wheelhouse"):
            wheels.require(Path(plan["recipe"]), step["requirements"], Path(plan["wheelhouse"]))
        argv += [
            "--only-binary",
            ":all:",
            "--requirement",
            str(Path(plan["recipe"]) / step["requirements"]),
        ]
    # In an image the interpreter is the system's, and Debian's and Ubuntu's pip want to hear that it is meant.
    return subprocess.call(argv, env={**os.environ, "PIP_BREAK_SYSTEM_PACKAGES": "1"})


def _copy(plan: Plan, step: Plan) -> int:
    source, target = Path(plan["recipe"]) / step["file"], Path(fill(step["to"], plan))
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(int(step["mode"], 8))
    print(f"wrote {target}")
    return 0


def _patch(plan: Plan, step: Plan) -> int:
    targets = {os.path.realpath(fill(target, plan)): None for target in step["targets"]}
    for target in targets:
        path = Path(target)
        if not path.is_file():
            raise StepError(
                f"{target} is not there", "check the base's version and the recipe's target"
            )
        text = path.read_bytes().decode("utf-8")
        patching.require(text, step["before"], target)
        if step["diff"] is not None:
            diff = Path(plan["recipe"]) / step["diff"]
            changed = patching.apply_diff(
                text, diff.read_text(encoding="utf-8"), target, step["diff"]
            )
        else:
            changed = patching.apply_edits(text, step["edits"], target)
        patching.verify(changed, step["verify"], target)
        patching.replace(path, changed)
        print(f"patched {target}: {step['verify'].strip()}")
    return 0


def _link(plan: Plan, step: Plan) -> int:
    link = Path(fill(step["link"], plan))
    patterns = [fill(pattern, plan) for pattern in step["to"]]
    found = [hit for pattern in patterns for hit in matches(pattern) if hit != str(link)]
    if not found:
        raise StepError(
            f"nothing to link {link} to: none of {', '.join(patterns)} is there",
            "check the base's version and the recipe's candidates",
        )
    if link.is_symlink():
        link.unlink()
    elif link.exists():
        raise StepError(f"{link} is there and is no link", "remove the step, or name another link")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(found[0])
    print(f"linked {link} -> {found[0]}")
    return 0


def _run(plan: Plan, step: Plan) -> int:
    if step["needs_module"] is not None and not _has_module(step["needs_module"]):
        print(f"skipped: the engine has no module {step['needs_module']}")
        return 0
    if step["needs_program"] is not None and shutil.which(step["needs_program"]) is None:
        print(f"skipped: there is no program {step['needs_program']}")
        return 0
    argv = [fill(word, plan) for word in step["argv"]]
    try:
        status = subprocess.call(argv, env={**os.environ, **step["env"]}, timeout=step["timeout_s"])
    except subprocess.TimeoutExpired as error:
        raise StepError(f"{argv[0]} took longer than {step['timeout_s']} s") from error
    except FileNotFoundError as error:
        raise StepError(
            f"{argv[0]} cannot be run: {error}", "is it installed in the base?"
        ) from error
    if status != 0:
        raise StepError(f"{argv[0]} ended with status {status}")
    return 0


def _has_module(name: str) -> bool:
    """Whether a module is there, asked of a fresh interpreter so that nothing of it is imported here."""
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
    return subprocess.call([sys.executable, "-c", code, name], stderr=subprocess.DEVNULL) == 0


_STEPS = {"pip": _pip, "copy": _copy, "patch": _patch, "link": _link, "run": _run}
