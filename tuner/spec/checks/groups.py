"""Groups: who belongs to them, and the form of their combinations."""

from __future__ import annotations

from tuner.spec.document import SpaceDocument
from tuner.spec.parameter import Group
from tuner.spec.strict_yaml import Document, Place


def check_groups(document: SpaceDocument, source: Document) -> None:
    """Check the members and the combinations of each group.

    Raises:
        SpaceError: At the first thing that does not hold.
    """
    owner: dict[str, str] = {}
    for name, group in document.groups.items():
        place: Place = ("groups", name)
        if name in document.parameters:
            raise source.error(place, f"{name} is also a parameter", "choose another name")
        sizes = group.parallel
        if sizes is not None and len(set(sizes.members)) != len(sizes.members):
            raise source.error((*place, "parallel"), "a member is named twice", "name it once")
        for member in group.members:
            _check_member(member, name, document, owner, source)
        _check_form(group, place, source)


def _check_member(
    member: str, name: str, document: SpaceDocument, owner: dict[str, str], source: Document
) -> None:
    place: Place = ("groups", name)
    if member not in document.parameters:
        raise source.error(
            place, f"{member} is not a parameter", f"declare it under parameters: {member}"
        )
    if other := owner.get(member):
        raise source.error(place, f"{member} is already in the group {other}", "keep it in one")
    owner[member] = name
    parameter = document.parameters[member]
    here: Place = ("parameters", member)
    if parameter.domain:
        raise source.error(
            (*here, parameter.domain[0]),
            f"{member} takes its values from the group {name}",
            f"delete {parameter.domain[0]}, or take it out of the group",
        )
    if parameter.when is not None:
        raise source.error(
            (*here, "when"), f"{member} is in the group {name}", "give the group the condition"
        )


def _check_form(group: Group, place: Place, source: Document) -> None:
    members = set(group.members)
    for index, row in enumerate(group.points or ()):
        if missing := sorted(members - row.keys()):
            raise source.error(
                (*place, "points", index), f"this point does not say {missing[0]}", "add it"
            )
    for index, grid in enumerate(group.grids or ()):
        if missing := sorted(members - grid.keys()):
            raise source.error(
                (*place, "grids", index), f"this grid does not say {missing[0]}", "add it"
            )
    lengths = {member: len(values) for member, values in (group.together or {}).items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{member} has {count}" for member, count in lengths.items())
        raise source.error(
            (*place, "together"),
            f"lists that move together must be equally long: {said}",
            "add the values that are missing",
        )
