"""Levels: their names, that they change what their workloads have, and that they can be trusted at all."""

from __future__ import annotations

from pydantic import ValidationError

from tuner.spec.document import SpaceDocument
from tuner.spec.levels import REAL, Level, LoadChange
from tuner.spec.strict_yaml import Document, Place
from tuner.spec.workload import Workload


def check_levels(document: SpaceDocument, source: Document) -> None:
    """Check the cheaper levels.

    Raises:
        SpaceError: At the first thing that does not hold, with its line.
    """
    if not document.levels:
        if "climb" in document.search.model_fields_set:
            raise source.error(
                ("search", "climb"), "climb does nothing without levels", "add levels, or delete it"
            )
        return
    if document.search.repeats.baseline < 2:
        raise source.error(
            ("search", "repeats", "baseline"),
            "levels are held against the study's own noise, which one start of the baseline does "
            "not show",
            "write baseline: 2 or more",
        )
    seen: dict[str, Level] = {}
    for index, level in enumerate(document.levels):
        place: Place = ("levels", index)
        if level.name == REAL or level.name in seen:
            said = "is what the workloads themselves are" if level.name == REAL else "stands twice"
            raise source.error((*place, "name"), f"the level {level.name} {said}", "rename it")
        _check_loads(document, source, place, level)
        for other in seen.values():
            if _asks(document, other) == _asks(document, level):
                said = f"{level.name} asks just what {other.name} asks"
                raise source.error(place, said, "delete one of the two")
        seen[level.name] = level


def _check_loads(document: SpaceDocument, source: Document, place: Place, level: Level) -> None:
    key = "workload" if document.workloads is None else "workloads"
    other = "workloads" if key == "workload" else "workload"
    if other in level.model_fields_set:
        raise source.error(
            (*place, other), f"the search space has {key} and not {other}", f"write {key}"
        )
    if key == "workloads" and level.workloads is None:
        if not level.until_settled:
            raise source.error(place, "this level leaves nothing out", "add workloads")
        raise source.error(
            place, "this level names no workload", "add workloads: the ones that are asked"
        )
    if level.until_settled and document.score.figures != ("weighted",):
        raise source.error(
            (*place, "until_settled"),
            "until_settled looks at the rates of the weighted score, and the objective is another",
            "leave it out, and ask less",
        )
    for name, change in level.changes.items():
        inner: Place = (*place, key) if key == "workload" else (*place, key, name)
        if name not in document.loads:
            known = ", ".join(document.loads)
            raise source.error(inner, f"there is no workload {name}", f"they are {known}")
        _check_change(source, inner, change, document.loads[name])
    if not level.until_settled and _asks(document, level)[1] == document.loads:
        raise source.error(place, "this level asks just what the real one asks", "ask less")


def _check_change(source: Document, place: Place, change: LoadChange, load: Workload) -> None:
    for key in change.said:
        if key not in type(load).model_fields:
            known = [k for k in LoadChange.model_fields if k in type(load).model_fields]
            raise source.error(
                (*place, key), f"{load.kind} has no {key}", f"it has {', '.join(known)}"
            )
    try:
        change.of(load)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        keys = [step for step in first["loc"] if step in change.said]
        where: Place = (*place, str(keys[0])) if keys else place
        said = str(first["msg"]).removeprefix("Value error, ")
        raise source.error(where, said, "write what this kind of workload takes") from error


def _asks(document: SpaceDocument, level: Level) -> tuple[bool, dict[str, Workload]]:
    loads = {name: change.of(document.loads[name]) for name, change in level.changes.items()}
    return level.until_settled, loads
