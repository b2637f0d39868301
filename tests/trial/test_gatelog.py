from __future__ import annotations

from tests.fidelity.test_gate import left, opened
from tests.fidelity.worlds import KEY
from tuner.fidelity.evidence import Mode
from tuner.fidelity.gate import Gate
from tuner.store.ledger import Said
from tuner.store.rows import Event
from tuner.trial import gatelog
from tuner.trial.gatelog import (
    changed,
    handed_out,
    in_line,
    moved,
    of_trial,
    reason,
    role_of,
    taken_up,
)


def events(said: list[Said], number: int) -> list[Event]:
    return [Event(n, 1, number, kind, 0.0, data) for n, (kind, data) in enumerate(said)]


def test_a_gate_is_what_its_events_say() -> None:
    before = opened()
    choice, after = before.choose(left(before), last=True)
    why = reason(choice.point, choice.role, before, before.screen(left(before)))
    chosen = events(handed_out(choice, why, before, after), 8)
    closed = after.record(choice.point, 1e6, choice.role)
    told = events(changed(after, closed, acts=True), 8)
    again = Gate(key=KEY, mode=Mode.SHADOW)
    first = events(changed(again, before, acts=True), 7)
    for event in (*first, *chosen, *told):
        assert event.data["key"] == KEY.digest
        again = taken_up(again, event)
    assert again.mode is Mode.DISABLED
    assert (again.opened, again.closing) == (closed.opened, closed.closing)
    assert again.deferred == closed.deferred
    assert [role_of(event) for event in (*first, *chosen, *told)] == [None, "audit", None, None]


def test_each_event_has_a_sentence() -> None:
    gate = opened()
    queue = left(gate)
    parts = gate.screen(queue)
    said = {role: reason("p21", role, gate, parts) for role in ("ordered", "audit", "deferred")}
    assert f"of {len(parts.kept)} that it keeps" in said["ordered"]
    assert "drawn by chance" in said["audit"]
    assert "nothing else is left" in said["deferred"]
    assert reason("unknown", "ordered", gate, parts) == "not put off: the proxy says nothing of it"
    choice, after = gate.choose(queue)
    first, second = events(handed_out(choice, "why", gate, after), 4)
    assert in_line(4, first.data) == "trial 4: why"
    assert in_line(4, second.data).startswith(f"the proxy puts {len(after.deferred)} points off")
    assert handed_out(choice, "why", after, after) == [(gatelog.GATE, first.data)]  # off already


def test_what_would_have_been_in_the_shadow_is_said_so() -> None:
    gate = opened()
    before = Gate(key=KEY, mode=Mode.SHADOW)
    (_, would), (_, does) = (changed(before, gate, acts=acts)[0] for acts in (False, True))
    assert would["text"].startswith("the proxy would order the search: tau-b")
    assert does["text"].startswith("the proxy orders the search from now on: tau-b")
    _, shut = gatelog.closed(gate.close("it lied"), acts=False)
    assert shut["text"] == "the proxy would be shut out: it lied"
    _, after = gate.choose(left(gate))
    _, shut = gatelog.closed(after.close("it lied"), acts=True)
    assert f"it lied; {len(after.deferred)} points that it had put off run" in shut["text"]
    assert changed(gate, gate, acts=True) == []
    doubts = after.model_copy(update={"mode": Mode.SHADOW})
    (_, said), (_, would) = (changed(after, doubts, acts=acts)[0] for acts in (True, False))
    assert said["text"].startswith("the proxy orders nothing for now: it can no longer be shown")
    assert f"{len(after.deferred)} points that it had put off run" in said["text"]
    assert would["text"].startswith("the proxy would order nothing for now")
    assert taken_up(after, Event(1, 1, 9, "gate", 0.0, said)) == doubts


def test_in_another_search_space_trust_is_earned_anew_and_what_was_shut_out_stays_so() -> None:
    _, gate = opened().choose(left(opened()))
    after = moved(gate)
    assert (after.mode, after.opened, after.deferred) == (Mode.SHADOW, None, ())
    assert after.observations == gate.observations
    assert moved(gate.close("it lied")).mode is Mode.DISABLED
    assert moved(Gate(key=KEY)) == Gate(key=KEY)


def test_a_trial_is_told_from_others() -> None:
    gate = opened()
    choice, after = gate.choose(left(gate))
    said = events(handed_out(choice, "put first", gate, after), 4)
    assert list(of_trial(said, 4, choice.point)) == ["put first"]
    off = after.deferred[0]
    assert list(of_trial(said, 9, off)) == ["the proxy had put it off when trial 4 was chosen"]
    assert list(of_trial(said, 9, "another")) == []
