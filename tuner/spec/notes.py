"""What a person should know about a search space, although nothing is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tuner.spec.checks.comparisons import vain
from tuner.spec.checks.engine import json_object
from tuner.spec.context import Context
from tuner.spec.dependencies import axis_order, condition
from tuner.spec.document import SpaceDocument
from tuner.spec.flags import positive
from tuner.spec.samples import samples
from tuner.spec.settings import engine_model
from tuner.spec.space import SearchSpace
from tuner.spec.supported import unsupported
from tuner.spec.targets import Claim, claims
from tuner.spec.values import json_text
from tuner.spec.wording import fixed_value


def notes(space: SearchSpace, context: Context) -> list[str]:
    """Fixed values that give way, comparisons in vain, conditions that never hold, first points without a budget."""
    return [
        *dict.fromkeys(_replaced(space)),
        *_never(space, context),
        *dict.fromkeys(f"{found}, which an expression asks" for found in vain(space.document)),
        *_unaffordable(space),
        *(f"this version of tuner cannot run {what}" for _, what in unsupported(space.document)),
    ]


def _replaced(space: SearchSpace) -> Iterator[str]:
    """Fixed values that a tuned or a computed one replaces."""
    fixed = _fixed(space)
    for claim in claims(space.document):
        known = _leaf_of(space.document, claim) if claim.leaf else fixed.get(claim.what)
        if known is None:
            continue
        what = f"{claim.what}, {claim.leaf}" if claim.leaf else claim.what
        owner = claim.owner if claim.label is None else f"{claim.owner} = {claim.label}"
        verb = "computed" if claim.owner in space.computed else "tuned"
        yield (
            f"{what}: fixed {known}, {verb} by {owner}; the {verb} value wins{_while(space, claim)}"
        )


def _while(space: SearchSpace, claim: Claim) -> str:
    parameter = space.parameters.get(claim.owner)
    groups = [group.when for group in space.groups.values() if claim.owner in group.members]
    when = next(iter(groups), parameter.when if parameter is not None else None)
    return f" where {when}" if when is not None else ""


def _fixed(space: SearchSpace) -> dict[str, str]:
    engine = space.engine
    flags = {
        f"flag {positive(flag)}": fixed_value(flag, value) for flag, value in engine.flags.items()
    }
    variables = {f"env {name}": fixed_value(name, value) for name, value in engine.env.items()}
    model = engine_model(engine.model, space.source).name
    return {
        **flags,
        **variables,
        "the engine's model": model,
        "the engine's recipe": engine.recipe,
    }


def _leaf_of(document: SpaceDocument, claim: Claim) -> str | None:
    """The fixed value of a leaf, where the flag's fixed JSON has it."""
    inner: Any = json_object(document.engine.flags.get(claim.what.removeprefix("flag ")))
    for step in (claim.leaf or "").split("."):
        if not isinstance(inner, dict) or step not in inner:
            return None
        inner = inner[step]
    return json_text(inner)


def _never(space: SearchSpace, context: Context) -> Iterator[str]:
    for axis in axis_order(space.document):
        text = condition(space.document, axis)
        if text is None:
            continue
        member = space.members(axis)[0]
        if not any(member in names for names in samples(space, (member,), context)):
            yield f"{axis}: {text} held at none of the points tried, so it may never exist"


def _unaffordable(space: SearchSpace) -> Iterator[str]:
    trials, first = space.budget.trials, len(space.document.first)
    if trials is not None and first >= trials:
        yield (
            f"the budget ends with trial {trials}, before the last of the {first} first points "
            "is reached"
        )
