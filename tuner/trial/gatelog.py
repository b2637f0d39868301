"""What a proxy's gate does, as the ledger keeps it: each step an event with the reason in a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tuner.fidelity.evidence import Closing, Mode, Role
from tuner.store.ledger import Said
from tuner.store.rows import Event

if TYPE_CHECKING:  # who only shows what was done needs none of the arithmetic
    from tuner.fidelity.gate import Choice, Gate
    from tuner.fidelity.screen import Screen

GATE = "gate"
"""The event that says what the gate did."""

OPENED, CLOSED, DOUBTED, DEFERRED = "opened", "closed", "doubted", "deferred"
ROLES: dict[str, Role] = {"ordered": "ordered", "audit": "audit", "released": "deferred"}
"""Why a trial ran, by what the gate did with it."""


def changed(before: Gate, after: Gate, *, acts: bool) -> list[Said]:
    """What is to be said of a trial that opened the gate or closed it; mostly nothing.

    Args:
        before: The gate before the trial.
        after: The gate that has learnt what the trial came to.
        acts: Whether it is acted upon; else it stands in the shadow.
    """
    if after.mode is before.mode:
        return []
    if after.closing is not None:
        return [closed(after, acts=acts)]
    why = after.assessment().why
    if before.mode is Mode.ON:
        will = (
            "the proxy orders nothing for now" if acts else "the proxy would order nothing for now"
        )
        text = f"{will}: it can no longer be shown to be right: {why}{_released(after)}"
        found = {"why": why, "after": len(after.observations), "left": len(_left(after))}
        return [_said(after, DOUBTED, text, acts=acts, **found)]
    if after.mode is not Mode.ON:
        return []
    will = "the proxy orders the search from now on" if acts else "the proxy would order the search"
    return [_said(after, OPENED, f"{will}: {why}", acts=acts, why=why, after=after.opened)]


def closed(gate: Gate, *, acts: bool) -> Said:
    """That a gate is shut, and why."""
    why, after = (gate.closing.why, gate.closing.after) if gate.closing else ("", 0)
    left = len(_left(gate))
    will = "the proxy is shut out on this stack" if acts else "the proxy would be shut out"
    text = f"{will}: {why}{_released(gate)}"
    return _said(gate, CLOSED, text, acts=acts, why=why, after=after, left=left)


def _left(gate: Gate) -> list[str]:
    """What was put off and has not run."""
    ran = {seen.point for seen in gate.observations}
    return [point for point in gate.deferred if point not in ran]


def _released(gate: Gate) -> str:
    left = _left(gate)
    return f"; {_points(len(left))} that it had put off run in their own order" if left else ""


def handed_out(choice: Choice, why: str, before: Gate, after: Gate) -> list[Said]:
    """What is to be said of a point that the gate lets run, and of those that it puts off for it.

    Args:
        choice: The point and its role.
        why: Why it runs.
        before: The gate before the choice.
        after: The gate that remembers what was put off.
    """
    known = set(before.deferred)
    fresh = [point for point in after.deferred if point not in known]
    what = next(name for name, role in ROLES.items() if role == choice.role)
    said = [_said(after, what, why, point=choice.point)]
    if fresh:
        text = (
            f"the proxy puts {_points(len(fresh))} off: they run once it has nothing better left, "
            "or is shown to be wrong"
        )
        said.append(_said(after, DEFERRED, text, points=fresh))
    return said


def reason(point: str, role: Role, gate: Gate, parts: Screen) -> str:
    """Why a point runs now."""
    off = len(parts.deferred)
    match role:
        case "audit":
            return f"an audit: drawn by chance from {_points(off)} that the proxy puts off"
        case "deferred":
            return f"one of {_points(off)} that the proxy had put off: nothing else is left"
    if point not in gate.predictions:
        return "not put off: the proxy says nothing of it"
    return f"put first by the proxy, of {len(parts.kept)} that it keeps and {off} that it puts off"


def role_of(event: Event) -> Role | None:
    """Why the trial of an event ran; None where it is about something else."""
    return ROLES.get(event.data["what"])


def taken_up(gate: Gate, event: Event) -> Gate:
    """A gate with what an event says of it."""
    data = event.data
    match data["what"]:
        case "opened":
            return gate.model_copy(update={"mode": Mode.ON, "opened": data["after"]})
        case "closed":
            closing = Closing(why=data["why"], after=data["after"])
            return gate.model_copy(update={"mode": Mode.DISABLED, "closing": closing})
        case "doubted":
            return gate.model_copy(update={"mode": Mode.SHADOW})
        case "deferred":
            deferred = tuple(dict.fromkeys((*gate.deferred, *data["points"])))
            return gate.model_copy(update={"deferred": deferred})
        case _:
            return gate


def moved(gate: Gate) -> Gate:
    """A gate whose points have other names now, in a changed search space.

    What it put off is nothing any more, and trust that it had is earned anew, by those trials that still
    count; one that was shut out stays so.
    """
    mode = Mode.SHADOW if gate.mode is Mode.ON else gate.mode
    return gate.model_copy(update={"mode": mode, "opened": None, "deferred": ()})


def in_line(number: int | None, data: dict[str, Any]) -> str:
    """An event of the gate as a line for people."""
    return f"trial {number}: {data['text']}" if "point" in data else str(data["text"])


def of_trial(events: Sequence[Event], number: int, point: str) -> Iterator[str]:
    """What the gate did with one trial of the search, in sentences.

    Args:
        events: Those of the gate, of the trial's study.
        number: The trial.
        point: The key of its point.
    """
    for event in events:
        if event.number == number and "point" in event.data:
            yield event.data["text"]
    off = next((e for e in events if point in e.data.get("points", ())), None)
    if off is not None and off.number != number:
        yield f"the proxy had put it off when trial {off.number} was chosen"


def _points(count: int) -> str:
    return "1 point" if count == 1 else f"{count:,} points"


def _said(gate: Gate, what: str, text: str, **more: Any) -> Said:
    return GATE, {"what": what, "text": text, "key": gate.key.digest, **more}
