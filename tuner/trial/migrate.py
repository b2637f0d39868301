"""Going on with a study whose search space has changed: what still fits is carried over.

A trial measured one deployment under one load. So it still counts exactly where the new search space
has a point that comes to the very same deployment, and asks the same of it. All the rest stays in the
ledger as history, each trial with the reason: it can be looked at, and counts for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.errors import SpaceError
from tuner.search.keys import key
from tuner.spec import Context, SearchSpace, assignment, baseline, resolve, violations
from tuner.spec.deployment import Deployment
from tuner.spec.points import completed
from tuner.store.rows import ON_PURPOSE, Carried, Origin, TrialRow
from tuner.store.stages import Stage

MEASURED_BY = ("workloads", "quality", "score", "memory")
"""Parts of a search space that decide what a measurement says. Where one differs, old and new figures
cannot stand side by side."""


@dataclass(slots=True)
class Migration:
    """What becomes of a study's trials in another search space.

    Attributes:
        carried: What still counts, by number, in terms of the new space.
        history: Why the others do not, by number.
    """

    carried: dict[int, Carried] = field(default_factory=dict)
    history: dict[int, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """What happened, in a sentence."""
        whole = len(self.carried) + len(self.history)
        return (
            f"the search space has changed: {len(self.carried)} of {whole} trials still count, "
            f"{len(self.history)} are kept as history"
        )

    def as_json(self) -> dict[str, Any]:
        """The migration as JSON-ready data, for the ledger."""
        return {
            "carried": sorted(self.carried),
            "history": {str(number): why for number, why in sorted(self.history.items())},
        }


def plan_migration(
    old: SearchSpace, new: SearchSpace, trials: Sequence[TrialRow], context: Context
) -> Migration:
    """Find out which trials still count.

    Args:
        old: The search space under which they ran.
        new: The one that is to go on.
        trials: All trials that count now, in order.
        context: What the new space is read against.
    """
    found = Migration()
    changed = changed_parts(old.meaning, new.meaning)
    first = key(assignment(new, baseline(new, context), context))
    taken: dict[str, int] = {}
    for trial in trials:
        fit = _fit(new, trial, context, first)
        if changed:
            fit = f"what is measured has changed: {', '.join(changed)}"
        elif isinstance(fit, Carried) and (name := key(fit.assignment)) in taken:
            fit = f"it is the same point as trial {taken[name]} now"
        if isinstance(fit, Carried):
            taken[key(fit.assignment)] = trial.number
            found.carried[trial.number] = fit
        else:
            found.history[trial.number] = fit
    return found


def changed_parts(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """Those parts that decide what a measurement says and are not the same."""
    return tuple(part for part in MEASURED_BY if old.get(part) != new.get(part))


def _ordered(deployment: Deployment) -> Deployment:
    """A deployment with its flags in one order: what was tuned and is fixed now stands elsewhere."""
    groups: list[list[str]] = []
    for word in deployment.argv:
        if word.startswith("--") or not groups:
            groups.append([word])
        else:
            groups[-1].append(word)
    return replace(deployment, argv=tuple(word for group in sorted(groups) for word in group))


def _fit(new: SearchSpace, trial: TrialRow, context: Context, first: str) -> Carried | str:
    """A trial in terms of the new space, or why it has no place there."""
    if trial.origin in ON_PURPOSE:
        return "it ran another trial again; that is done anew"
    if trial.stage is not Stage.TOLD or trial.value is None:
        return "it taught nothing"
    kept = {name: value for name, value in trial.params.items() if name in new.parameters}
    try:
        params = completed(new, kept, context)
        chosen = assignment(new, params, context)
        deployment = resolve(new, params, context)
        broken = violations(new, params, context)
    except SpaceError as error:
        return error.message
    if _ordered(deployment) != _ordered(Deployment.from_json(trial.deployment)):
        return "no point of the new search space comes to the same deployment"
    if broken and trial.launched:
        return f"a rule forbids it now: {broken[0].reason}"
    if trial.verdict == "rejected_by_rule" and not broken:
        return "the rule that forbade it is gone"
    origin = Origin.BASELINE if key(chosen) == first else Origin.SEARCH
    return Carried(origin, params, dict(chosen))
