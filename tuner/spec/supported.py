"""What a search space can say that this version of the program cannot do yet.

A key that is accepted and does nothing would be the worst defect of a schema, so each of these is
refused with its line. When a room learns to do one, its line here goes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tuner.spec.document import SpaceDocument
from tuner.spec.strict_yaml import Document, Place

KINDS = frozenset({"conversations", "decode_curve", "official_like", "replay", "dataset"})
"""Kinds of workload that the load room can send."""

LAUNCHES = frozenset({"process", "docker"})
"""Launchers that there are."""

SETTINGS = frozenset({"model", "recipe", "image"})
"""Parts of the engine that a parameter can choose."""


def unsupported(document: SpaceDocument) -> Iterator[tuple[Place, str]]:
    """Everything in a search space that this version cannot do, with its place."""
    launch = document.engine.launch
    if launch not in LAUNCHES:
        yield ("engine", "launch"), f"launch: {launch}"
    for name, workload in document.loads.items():
        place: Place = ("workload",) if document.workload else ("workloads", name)
        if workload.kind not in KINDS:
            yield (*place, "kind"), f"workloads of the kind {workload.kind}"
    for name, target in {**document.parameters, **document.computed}.items():
        if target.setting is not None and target.setting not in SETTINGS:
            section = "parameters" if name in document.parameters else "computed"
            yield (section, name, "setting"), f"setting: {target.setting}"


def refuse_unsupported(document: SpaceDocument, source: Document) -> None:
    """Refuse what this version cannot do.

    Raises:
        SpaceError: At the first such thing.
    """
    for place, what in unsupported(document):
        raise source.error(
            place, f"{what} cannot be run by this version of tuner yet", _MENDS.get(what, _LEAVE)
        )


_LEAVE = "leave it out for now"
_MENDS = {
    "setting: version": "choose among versions of an engine with setting: recipe, or with setting: image"
}
