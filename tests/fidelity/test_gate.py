from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.fidelity.worlds import KEY
from tuner.fidelity.assess import Limits
from tuner.fidelity.evidence import Mode, Observed, Predicted
from tuner.fidelity.gate import Gate

REAL = {f"p{i}": 10.0 * 1.12**i for i in range(24)}
QUEUE = list(REAL)
MAY_FOLLOW = {
    Mode.OFF: {Mode.OFF},
    Mode.SHADOW: {Mode.SHADOW, Mode.ON, Mode.DISABLED},
    Mode.ON: {Mode.ON, Mode.SHADOW, Mode.DISABLED},
    Mode.DISABLED: {Mode.DISABLED},
}


def predictions(values: dict[str, float] | None = None) -> dict[str, Predicted]:
    return {p: Predicted(layout="ab"[int(p[1:]) % 2], value=v) for p, v in (values or REAL).items()}


def opened() -> Gate:
    """A gate that was opened by seven anchors of a perfect proxy."""
    gate = Gate(key=KEY).predict(predictions())
    for point in ("p0", "p23", "p22", "p5", "p11", "p16"):
        gate = gate.record(point, REAL[point])
        assert gate.mode is Mode.SHADOW
    gate = gate.record("p0", REAL["p0"] * 1.01)  # the second time tells the noise
    assert gate.mode is Mode.ON
    return gate


def left(gate: Gate) -> list[str]:
    ran = {o.point for o in gate.observations}
    return [p for p in QUEUE if p not in ran]


def step(gate: Gate, value: float | None = None) -> Gate:
    choice, gate = gate.choose(left(gate))
    return gate.record(choice.point, value or REAL[choice.point], choice.role)


def test_a_new_gate_is_off_and_predictions_put_it_in_the_shadow() -> None:
    gate = Gate(key=KEY)
    assert gate.mode is Mode.OFF
    assert gate.predict({}).mode is Mode.OFF
    assert gate.predict(predictions()).mode is Mode.SHADOW
    assert gate.record("p1", 5.0).mode is Mode.OFF


@pytest.mark.parametrize("gate", [Gate(key=KEY), Gate(key=KEY).predict(predictions())])
def test_off_and_in_the_shadow_the_queue_keeps_its_order(gate: Gate) -> None:
    choice, after = gate.choose(["p3", "p23", "p1"])
    assert (choice.point, choice.role) == ("p3", "plain")
    assert after == gate


def test_on_the_best_come_first_and_the_rest_is_deferred() -> None:
    choice, gate = opened().choose(QUEUE[:22])
    assert (choice.point, choice.role) == ("p21", "ordered")
    assert set(gate.deferred) == {f"p{i}" for i in range(18)}


def test_every_seventh_real_trial_is_an_audit() -> None:
    gate = opened()
    roles: list[str] = []
    while left(gate) and len(roles) < 16:
        gate = step(gate)
        roles.append(gate.observations[-1].role)
    # Four of the best six are left; when they are through, what was deferred follows.
    assert roles[:7] == ["ordered"] * 4 + ["deferred"] * 2 + ["audit"]
    assert [n for n, r in enumerate(roles, 1) if r == "audit"] == [7, 14]
    assert gate.mode is Mode.ON


def test_an_audit_that_beats_the_best_closes_for_good() -> None:
    gate = opened()
    while gate.observations[-1].role != "audit":
        choice, gate = gate.choose(left(gate))
        value = 500.0 if choice.role == "audit" else REAL[choice.point]
        gate = gate.record(choice.point, value, choice.role)
    assert gate.mode is Mode.DISABLED
    assert gate.closing is not None
    assert "deferred" in gate.closing.why
    # What was deferred runs again, in the queue's own order, and good evidence opens nothing.
    assert gate.choose(left(gate))[0].point == left(gate)[0]
    while left(gate):
        gate = step(gate)
        assert gate.mode is Mode.DISABLED
    assert gate.predict(predictions()).mode is Mode.DISABLED


def test_an_audit_within_the_noise_of_the_best_closes_nothing() -> None:
    gate = opened()
    sigma = gate.sigma
    assert sigma is not None
    best = REAL["p23"]
    _, gate = gate.choose(left(gate))
    same = gate.record("p17", best * (1 + 1.9 * sigma), "audit")
    assert same.closing is None or "deferred" not in same.closing.why


def test_a_wrong_order_closes() -> None:
    gate = opened()
    for point, value in [("p21", 8.0), ("p20", 9.0), ("p19", 7.0)]:
        gate = gate.record(point, value, "ordered")
    assert gate.mode is Mode.DISABLED
    assert gate.closing is not None
    assert "tau-b" in gate.closing.why


def doubted() -> Gate:
    """A gate that was open, and whose noise swallows the pairs by now."""
    _, gate = opened().choose(QUEUE[:22])
    for value in (10.0, 60.0, 4.0):
        gate = gate.record("p0", value, "plain")
        if gate.mode is not Mode.ON:
            break
    return gate


def test_noise_that_swallows_the_pairs_takes_the_trust_away_and_does_not_close() -> None:
    gate = doubted()
    assert gate.mode is Mode.SHADOW
    assert gate.closing is None
    assert gate.choose(left(gate))[0].role == "plain"
    for _ in range(30):  # the noise is known better by and by
        gate = gate.record("p0", 10.0)
        if gate.mode is Mode.ON:
            break
    assert gate.mode is Mode.ON
    assert gate.opened == len(gate.observations)  # the next audit is counted from there
    assert gate.choose(left(gate))[0].role == "ordered"


def test_what_it_had_put_off_and_is_best_closes_it_in_the_shadow_too() -> None:
    gate = doubted()
    assert "p3" in gate.deferred
    closed = gate.record("p3", 1e9)
    assert closed.mode is Mode.DISABLED
    assert gate.record("p21", 1e9).mode is not Mode.DISABLED  # that one was not put off
    assert gate.winner_was("p3").mode is Mode.DISABLED


def test_a_failure_in_a_layout_of_its_own_takes_nothing_away() -> None:
    gate = opened()
    alone = {"new": Predicted(layout="c", value=5.0)}
    after = gate.predict(alone).record("new", None, "ordered")
    assert after.mode is Mode.ON
    assert after.assessment() == gate.assessment()


def ends(gate: Gate, *points: str, below: float) -> Gate:
    for point in points:
        gate = gate.record(point, None, "ordered", below=below)
    return gate


def test_what_it_put_first_and_was_ended_early_three_times_in_a_row_closes() -> None:
    praised = {
        p: Predicted(layout="ab"[int(p[1:]) % 2], value=130.0) for p in ("p19", "p20", "p21")
    }
    gate = ends(opened().predict(praised), "p21", "p20", below=125.0)
    assert gate.mode is Mode.ON
    assert gate.assessment().tau == 1  # that they are below the best, it had said
    plain = gate.record("unknown", 9.0, "ordered").record("p1", REAL["p1"], "audit")
    for before in (gate, plain):  # what it said nothing of, or had put off, is between them
        after = ends(before, "p19", below=125.0)
        assert after.mode is Mode.DISABLED
        assert after.closing is not None
        assert "3 points in a row" in after.closing.why
    between = gate.record("p18", REAL["p18"], "ordered")
    assert ends(between, "p19", below=125.0).mode is Mode.ON


def test_what_it_put_first_and_was_far_below_what_others_came_to_closes() -> None:
    closed = ends(opened(), "p21", "p20", below=12.0)
    assert closed.closing is not None
    assert "tau-b" in closed.closing.why


def test_what_it_held_for_worse_itself_may_be_ended_early() -> None:
    gate = ends(opened(), "p4", "p6", "p7", below=0.9 * REAL["p23"])
    assert gate.mode is Mode.ON
    assert gate.assessment().pairs > opened().assessment().pairs
    assert Gate.model_validate_json(gate.model_dump_json()) == gate


def test_a_winner_that_was_deferred_closes() -> None:
    _, gate = opened().choose(QUEUE[:22])
    assert gate.winner_was("p21").mode is Mode.ON
    closed = gate.winner_was("p3")
    assert closed.mode is Mode.DISABLED
    assert closed.closing is not None
    assert "found best" in closed.closing.why


def test_a_trial_that_came_to_nothing_shows_nothing() -> None:
    gate = opened()
    before = gate.assessment()
    after = gate.record("p21", None, "ordered")
    assert after.mode is Mode.ON
    assert after.assessment() == before
    # Its place among the best is given to the next one.
    assert "p17" in after.screen(left(after)).kept


def test_the_proxy_may_change_its_mind_until_a_point_has_run() -> None:
    gate = Gate(key=KEY).predict(predictions()).record("p1", 5.0)
    changed = gate.predict(predictions(dict.fromkeys(REAL, 7.0)))
    assert changed.predictions["p1"].value == REAL["p1"]
    assert changed.predictions["p2"].value == 7.0


def test_another_stack_is_another_gate() -> None:
    text = opened().model_dump_json()
    assert Gate.resume(text, KEY).mode is Mode.ON
    for name in type(KEY).model_fields:
        other = KEY.model_copy(update={name: "other"})
        assert other.digest != KEY.digest
        fresh = Gate.resume(text, other)
        assert (fresh.mode, fresh.observations, fresh.key) == (Mode.OFF, (), other)
    assert Gate.resume(None, KEY).mode is Mode.OFF


def test_values_that_are_none_of_a_score_are_refused() -> None:
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValidationError):
            Gate(key=KEY).record("p1", bad)
        with pytest.raises(ValidationError):
            Predicted(layout="a", value=bad)


def test_the_report_is_plain_json() -> None:
    _, gate = opened().choose(QUEUE[:22])
    data = json.loads(json.dumps(gate.report(), allow_nan=False))
    assert data["mode"] == "on"
    assert data["opened_after"] == 7
    assert data["deferred"] == 18
    assert data["deferred_never_run"] == 14  # four anchors are among them
    assert data["assessment"]["tau"] == 1
    assert data["tau_interval"] == [1, 1]
    assert json.loads(json.dumps(Gate(key=KEY).report()))["mode"] == "off"


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.sampled_from(QUEUE), st.floats(0.1, 100), min_size=0),
    st.lists(
        st.tuples(
            st.sampled_from(QUEUE),
            st.none() | st.floats(0.1, 100),
            st.sampled_from(["plain", "ordered", "audit", "deferred"]),
        ),
        max_size=12,
    ),
)
def test_whatever_happens(
    said: dict[str, float], trials: list[tuple[str, float | None, str]]
) -> None:
    gate = Gate(key=KEY, limits=Limits(anchors=3, pairs=2, levels=2, p=0.9))
    gate = gate.predict(predictions(said)) if said else gate
    for point, value, role in trials:
        before = gate
        choice, chosen = gate.choose(QUEUE)
        assert choice.point in QUEUE
        assert chosen.mode is gate.mode
        gate = chosen.record(point, value, role)  # type: ignore[arg-type]  # drawn from the four roles
        # It never skips the shadow, goes back to it alone, and its text is all of it.
        assert gate.mode in MAY_FOLLOW[before.mode]
        if (before.mode, gate.mode) == (Mode.SHADOW, Mode.DISABLED):
            assert before.opened is not None
        assert Gate.model_validate_json(gate.model_dump_json()) == gate
        assert (gate.closing is None) == (gate.mode is not Mode.DISABLED)
        if before.mode is Mode.OFF:
            assert gate.mode is Mode.OFF


def test_what_is_foretold_replaces_all_but_what_was_said_of_points_that_ran() -> None:
    gate = opened()
    ran = {o.point for o in gate.observations}
    said = {"p7": Predicted(layout="b", value=3.0), "p0": Predicted(layout="a", value=99.0)}
    after = gate.foretell(said)
    assert set(after.predictions) == ran | {"p7"}
    assert after.predictions["p7"].value == 3.0
    assert after.predictions["p0"] == gate.predictions["p0"]
    assert after.mode is Mode.ON
    assert set(after.foretell({}).predictions) == ran
    # What is not foretold any more holds no place among the best: then others are the best quarter.
    assert gate.screen(["p17"]).deferred == ("p17",)
    fewer = gate.foretell(
        {p: s for p, s in predictions().items() if p not in {"p18", "p19", "p20", "p21"}}
    )
    assert fewer.screen(["p17"]).kept == ("p17",)
    assert Gate(key=KEY).foretell({}).mode is Mode.OFF


def test_the_last_trial_is_an_audit_where_one_can_be_made() -> None:
    gate = opened()
    assert gate.choose(left(gate))[0].role == "ordered"
    choice, after = gate.choose(left(gate), last=True)
    assert choice.role == "audit"
    assert choice.point in after.deferred
    best = gate.choose(left(gate))[0].point
    assert gate.choose([best], last=True)[0].role == "ordered"  # nothing is put off
    assert Gate(key=KEY).choose(["p1"], last=True)[0].role == "plain"


def test_what_is_recalled_is_not_judged_anew() -> None:
    gate = opened()
    surprise = max(REAL.values()) * 3
    seen = Observed(point="p1", value=surprise, role="audit")
    assert gate.recall(seen).mode is Mode.ON
    assert gate.recall(seen).observations == gate.record("p1", surprise, "audit").observations
    assert gate.record("p1", surprise, "audit").mode is Mode.DISABLED
