"""Who sets which flag, variable and setting: quarrels between tuned values, and fixed ones that give way."""

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
from tuner.spec.values import FileValue, ListValue, SecretValue, json_text, text_of


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


def notes(space: SearchSpace) -> list[str]:
    """What a person should know: fixed values that a tuned one replaces."""
    said: dict[str, None] = {}
    fixed = _fixed(space.document)
    for claim in claims(space.document):
        if claim.what not in fixed or claim.leaf is not None:
            continue
        owner = claim.owner if claim.label is None else f"{claim.owner} = {claim.label}"
        verb = "computed" if claim.owner in space.computed else "tuned"
        said[
            f"{claim.what}: fixed {fixed[claim.what]}, {verb} by {owner}; "
            f"the {verb} value wins{_while(space, claim)}"
        ] = None
    return list(said)


def _while(space: SearchSpace, claim: Claim) -> str:
    parameter = space.parameters.get(claim.owner)
    if parameter is not None and parameter.when is not None:
        return f" where {parameter.when}"
    return ""


def _fixed(document: SpaceDocument) -> dict[str, str]:
    flags = {
        f"flag {positive(flag)}": _shown(flag, value)
        for flag, value in document.engine.flags.items()
    }
    return flags | {
        f"env {name}": _shown(name, value) for name, value in document.engine.env.items()
    }


def _shown(name: str, value: object) -> str:
    if value is True:
        return name if name.startswith("--no-") else "on"
    if isinstance(value, FileValue):
        return value.file
    if isinstance(value, SecretValue):
        return f"from the environment ({value.from_env})"
    if isinstance(value, ListValue):
        return ", ".join(str(item) for item in value.list)
    return text_of(value) if isinstance(value, str | int | float) else json_text(value)
