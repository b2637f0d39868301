"""Who sets which flag, variable and setting: and quarrels between tuned values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tuner.spec.context import Context
from tuner.spec.document import SpaceDocument
from tuner.spec.evaluation import Value
from tuner.spec.flags import positive
from tuner.spec.parameter import Target
from tuner.spec.resolve import computed_values
from tuner.spec.samples import samples
from tuner.spec.space import SearchSpace
from tuner.spec.strict_yaml import Place


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that a tuned value sets.

    Attributes:
        owner: The parameter or the computed value.
        place: Where it says so.
        what: The flag, variable or setting, as in ``flag --max-num-seqs``.
        leaf: The place inside a flag's JSON; None for the whole.
        label: For a bundle, the choice that sets it.
    """

    owner: str
    place: Place
    what: str
    leaf: str | None = None
    label: str | None = None

    def meets(self, other: Claim) -> bool:
        """Whether both set the same thing, or one sets a part of what the other sets."""
        if self.what != other.what:
            return False
        if self.leaf is None or other.leaf is None:
            return True
        one, two = self.leaf.split("."), other.leaf.split(".")
        return one == two[: len(one)] or two == one[: len(two)]


def claims(document: SpaceDocument) -> Iterator[Claim]:
    """Everything that parameters and computed values set."""
    for name, parameter in document.parameters.items():
        place: Place = ("parameters", name)
        yield from _claim(name, place, parameter)
        for label, bundle in (parameter.bundle or {}).items():
            inside: Place = (*place, "bundle", label)
            for flag in bundle.flags:
                yield Claim(name, inside, f"flag {positive(flag)}", label=label)
            for variable in bundle.env:
                yield Claim(name, inside, f"env {variable}", label=label)
    for name, item in document.computed.items():
        yield from _claim(name, ("computed", name), item)


def _claim(name: str, place: Place, target: Target) -> Iterator[Claim]:
    if target.flag is not None:
        yield Claim(name, (*place, "flag"), f"flag {positive(target.flag)}", target.leaf)
    elif target.env is not None:
        yield Claim(name, (*place, "env"), f"env {target.env}")
    elif target.setting is not None:
        yield Claim(name, (*place, "setting"), f"the engine's {target.setting}")


def check_quarrels(space: SearchSpace, context: Context) -> None:
    """Check that no two tuned values ever set the same thing at one point.

    Raises:
        SpaceError: When two can.
    """
    found = list(claims(space.document))
    for index, one in enumerate(found):
        for other in found[index + 1 :]:
            if one.owner != other.owner and one.meets(other) and _both(space, one, other, context):
                raise space.source.error(
                    other.place,
                    f"{one.owner} and {other.owner} can both set {other.what} at one point",
                    "give them conditions that exclude each other, or keep one of the two",
                )


def _both(space: SearchSpace, one: Claim, other: Claim, context: Context) -> bool:
    return any(
        _sets(space, one, names) and _sets(space, other, names)
        for names in samples(space, (one.owner, other.owner), context)
    )


def _sets(space: SearchSpace, claim: Claim, names: dict[str, Value]) -> bool:
    if claim.owner in space.computed:
        return claim.owner in computed_values(space, names)
    if claim.owner not in names:
        return False
    return claim.label is None or names[claim.owner] == claim.label
