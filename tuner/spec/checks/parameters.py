"""The values of each parameter: that its target can carry them, and that the baseline is one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tuner.spec.checks.engine import ALLOW, check_env_name, check_items, json_object
from tuner.spec.dependencies import group_of
from tuner.spec.document import SpaceDocument
from tuner.spec.flags import flag_loads_code, names_secret, positive
from tuner.spec.outcomes import outcomes
from tuner.spec.parameter import Computed, Group, Parameter, Target
from tuner.spec.settings import check_model_text
from tuner.spec.strict_yaml import Document, Place
from tuner.spec.values import Choice, FileValue, key, label, meaning, text_of


def check_parameters(document: SpaceDocument, source: Document) -> None:
    """Check the domain, the target and the baseline of every parameter.

    Raises:
        SpaceError: At the first thing that does not hold.
    """
    groups = group_of(document)
    for name, parameter in document.parameters.items():
        place: Place = ("parameters", name)
        owner = groups.get(name)
        group = (owner, document.groups[owner]) if owner is not None else None
        _check_domain(name, parameter, group, place, source)
        values = list(_values(name, parameter, group, place))
        _check_distinct(name, parameter, place, source)
        for where, value in (*values, ((*place, "baseline"), parameter.baseline)):
            _check_value(name, parameter, value, where, source)
        _check_join(name, parameter, [value for _, value in values], place, source)
        _check_code(parameter, values, place, document, source)
        _check_leaf(parameter, place, document, source)
        _check_baseline(name, parameter, group, place, source)
    for name, item in document.computed.items():
        _check_code(item, [], ("computed", name), document, source)
        _check_leaf(item, ("computed", name), document, source)
        _check_models(name, item, document, source)


def _check_domain(
    name: str, parameter: Parameter, group: tuple[str, Group] | None, place: Place, source: Document
) -> None:
    domains = parameter.domain
    if not domains and group is None:
        raise source.error(
            place,
            f"{name} has no values",
            "give it one of choices, integer, float, switch and bundle, or put it into a group",
        )
    if len(domains) > 1:
        raise source.error(
            (*place, domains[1]),
            f"{name} has both {domains[0]} and {domains[1]}",
            "keep one of the two",
        )
    if parameter.bundle is not None and parameter.aim is not None:
        raise source.error(
            place, f"{name} has a bundle and {parameter.aim}", "put all of it into the bundle"
        )
    if parameter.bundle is not None and not parameter.bundle:
        raise source.error((*place, "bundle"), f"{name} has an empty bundle", "add choices")


def _values(
    name: str, parameter: Parameter, group: tuple[str, Group] | None, place: Place
) -> Iterator[tuple[Place, Choice]]:
    """The values that are written out, with their places."""
    for index, value in enumerate(parameter.choices or ()):
        yield (*place, "choices", index), value
    if group is None:
        return
    here: Place = ("groups", group[0])
    for index, row in enumerate(group[1].points or ()):
        yield (*here, "points", index, name), row[name]
    for index, value in enumerate((group[1].together or {}).get(name, ())):
        yield (*here, "together", name, index), value
    for number, grid in enumerate(group[1].grids or ()):
        for index, value in enumerate(grid[name]):
            yield (*here, "grids", number, name, index), value


def _check_distinct(name: str, parameter: Parameter, place: Place, source: Document) -> None:
    """Refuse choices that are the same, or that a server could not tell apart."""
    seen: dict[str, Choice] = {}
    for index, choice in enumerate(parameter.choices or ()):
        text = _carried(parameter, choice)
        if text in seen:
            first = key(label(seen[text]))
            same = " twice" if first == key(label(choice)) else f" and {first}, which are the same"
            raise source.error(
                (*place, "choices", index),
                f"{name} has {key(label(choice))}{same}",
                "keep one of the two",
            )
        seen[text] = choice


def _carried(target: Target, choice: Choice) -> str:
    """A text that is equal for choices that come to the same."""
    if isinstance(choice, float) and choice.is_integer():
        choice = int(choice)  # 1 and 1.0 are one number to expressions and to the sampler
    scalar = isinstance(choice, str | int | float) and not isinstance(choice, bool)
    if scalar and target.leaf is None and (target.flag or target.env):
        return text_of(choice)  # type: ignore[arg-type] # narrowed by the line above
    return key(label(choice))


def _check_value(
    name: str, parameter: Parameter, value: Choice, place: Place, source: Document
) -> None:
    """Check that the target of a parameter can carry one of its values."""
    if parameter.switch is not None or parameter.bundle is not None:
        return
    if parameter.setting is not None:
        if not isinstance(value, str) or not value:
            raise source.error(
                place, f"{name}: the engine's {parameter.setting} is text", "quote it"
            )
        if parameter.setting == "model":
            check_model_text(value, place, source)
    if isinstance(value, bool) and parameter.leaf is None and parameter.aim is not None:
        mend = "use switch: pair or switch: bare" if parameter.flag else 'write "1" and "0"'
        raise source.error(place, f"{name}: true and false have no text of their own", mend)
    if isinstance(value, float) and not math.isfinite(value) and parameter.leaf is not None:
        raise source.error(place, f"{name}: JSON has no {text_of(value)}", 'quote it: "inf"')
    if isinstance(value, tuple) and parameter.leaf is None and parameter.aim is not None:
        if parameter.join is None:
            raise source.error(
                place, f"{name}: it is not said how a list is given", "add join: comma, for example"
            )
        check_items(parameter.flag or str(parameter.env), value, parameter.join, place, source)


def _check_join(
    name: str, parameter: Parameter, values: list[Choice], place: Place, source: Document
) -> None:
    if parameter.join is not None and not any(isinstance(value, tuple) for value in values):
        raise source.error(
            (*place, "join"), f"{name}: join does nothing, as no value is a list", "delete it"
        )


def _check_code(
    target: Parameter | Computed,
    values: list[tuple[Place, Choice]],
    place: Place,
    document: SpaceDocument,
    source: Document,
) -> None:
    allow = document.engine.allow_code
    if target.env is not None:
        here = (*place, "env")
        check_env_name(target.env, here, source, allow_code=allow)
        if names_secret(target.env):
            raise source.error(here, f"{target.env} seems to hold a secret", "secrets stay fixed")
    if target.flag is None or allow:
        return
    for where, value in ((place, None), *values):
        inner = meaning(value)
        carried = {target.leaf: inner} if target.leaf is not None else inner
        if what := flag_loads_code(target.flag, carried):
            raise source.error(where, f"{what} makes the server load code or open files", ALLOW)


def _check_leaf(
    target: Parameter | Computed, place: Place, document: SpaceDocument, source: Document
) -> None:
    """Check that the fixed value of a leaf's flag has room for the leaf."""
    if target.flag is None or target.leaf is None:
        return
    wanted = positive(target.flag)
    for flag, value in document.engine.flags.items():
        if positive(flag) != wanted:
            continue
        inner: Any = json_object(value)
        *way, _ = target.leaf.split(".")
        for number, step in enumerate(("", *way)):
            inner = inner.get(step, {}) if step else inner
            if not isinstance(inner, dict):
                there = f"{flag} {'.'.join(way[:number])}".rstrip()
                raise source.error(
                    (*place, "leaf"),
                    f"{there} is fixed to what is no JSON object, so there is no {target.leaf} in it",
                    "write the fixed value as a mapping, or leave it out",
                )


def _check_models(name: str, item: Computed, document: SpaceDocument, source: Document) -> None:
    if item.setting == "model":
        for text in outcomes(document, name):
            check_model_text(text, ("computed", name, "value"), source)


def _check_baseline(
    name: str, parameter: Parameter, group: tuple[str, Group] | None, place: Place, source: Document
) -> None:
    if group is not None or in_domain(parameter, parameter.baseline):
        return
    said = key(label(parameter.baseline))
    if isinstance(parameter.baseline, FileValue):
        said = parameter.baseline.file
    raise source.error(
        (*place, "baseline"),
        f"the baseline {said} of {name} is not one of its values",
        f"write one of {domain_text(parameter)}",
    )


def in_domain(parameter: Parameter, value: Choice) -> bool:
    """Whether a value is one of a parameter's; for parameters that are in no group."""
    if parameter.choices is not None:
        return key(label(value)) in {key(label(choice)) for choice in parameter.choices}
    if parameter.switch is not None:
        return isinstance(value, bool)
    if parameter.bundle is not None:
        return isinstance(value, str) and value in parameter.bundle
    number_range = parameter.integer or parameter.floating
    return number_range is not None and number_range.contains(value)


def domain_text(parameter: Parameter) -> str:
    """The values of a parameter, for people."""
    if parameter.choices is not None:
        return ", ".join(key(label(choice)) for choice in parameter.choices)
    if parameter.switch is not None:
        return "true, false"
    if parameter.bundle is not None:
        return ", ".join(parameter.bundle)
    return str(parameter.integer or parameter.floating)
