"""Runs a recipe's checks inside an engine and says what is missing."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.build.engine import Engine
from tuner.build.failure import mend_for
from tuner.build.interior import ask
from tuner.build.layout import PLAN
from tuner.build.load import Recipe
from tuner.errors import BuildFailed


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


def verify_engine(engine: Engine, recipe: Recipe) -> tuple[CheckResult, ...]:
    """Run a recipe's checks inside a built engine.

    Args:
        engine: The engine.
        recipe: Its recipe.

    Returns:
        One result for each check, in the recipe's order. An engine whose interpreter does not run
        has one bad result, ``interpreter``. Where only the devices cannot be had that its container
        asks for, ``devices`` says so, and the checks are run without them.
    """
    try:
        return results_of(ask(engine, "check", PLAN, "verify"), recipe)
    except (ValueError, OSError) as error:
        said = str(error)
    if engine.image is not None:
        with contextlib.suppress(ValueError, OSError):
            rest = results_of(ask(engine, "check", PLAN, "verify", devices=False), recipe)
            return (CheckResult("devices", ok=False, detail=said, mend=mend_for(said)), *rest)
    return (CheckResult("interpreter", ok=False, detail=said, mend=mend_for(said)),)


def results_of(found: Sequence[dict[str, Any]], recipe: Recipe) -> tuple[CheckResult, ...]:
    """The results that the code inside an engine gave, each with the recipe's mend."""
    mends = {check.name: check.mend for check in recipe.spec.checks}
    return tuple(
        CheckResult(one["name"], one["ok"], one["detail"], mends.get(one["name"])) for one in found
    )


def require(results: Sequence[CheckResult], *, log: Path) -> None:
    """Insist that checks passed.

    Raises:
        BuildFailed: When one did not.
    """
    bad = [result for result in results if not result.ok]
    if bad:
        raise BuildFailed(
            "checks",
            log=log,
            tail="\n".join(f"{result.name}: {result.detail}" for result in bad),
            mend=next((result.mend for result in bad if result.mend), None),
        )
