"""Whole logs of a real vLLM 0.32 on a CPU: each failure was provoked, the clean stops too."""

from __future__ import annotations

import pytest

from tests.verdict.cases import DATA
from tuner.verdict import Asked, Evidence, ExitFacts, Judgement, Retry, judge, read_log

LOGS = DATA / "logs"


def judged(name: str, status: int | None = None, asked: Asked | None = None) -> Judgement:
    ended = None if status is None else ExitFacts(status=status)
    return judge(Evidence(log=read_log(LOGS / f"{name}.log"), exit=ended, asked=asked))


@pytest.mark.parametrize("know_exit", [True, False])
@pytest.mark.parametrize(
    ("name", "status", "verdict", "stage", "violation"),
    [
        ("kv_space", 1, "kv_space_does_not_fit", "kv_cache", 0.816),
        ("chunked_prefill_off", 1, "flags_rejected", "starting", 0.9375),
        ("removed_flag", 2, "flags_rejected", "starting", None),
        ("unknown_parser", 1, "flags_rejected", "starting", None),
        ("too_long", 1, "flags_rejected", "starting", 0.738),
        ("batched_below_seqs", 1, "flags_rejected", "starting", 0.5),
        ("heads_not_divisible", 1, "unsupported_combination", "starting", None),
        ("numa_binding", 1, "unsupported_combination", "starting", None),
        ("port_taken", 1, "port_taken", "starting", None),
        ("head_dim", 0, "missing_backend", "serving", None),
        ("worker_killed", 0, "worker_crash", "serving", None),
        ("core_killed", 0, "engine_crash", "serving", None),
        ("clean_stop", 0, "stopped_cleanly", "stopping", None),
        ("interrupted_when_ready", 0, "stopped_cleanly", "stopping", None),
    ],
)
def test_provoked_failures(
    name: str, status: int, verdict: str, stage: str, violation: float | None, *, know_exit: bool
) -> None:
    judgement = judged(name, status if know_exit else None)
    assert (judgement.verdict, judgement.stage) == (verdict, stage)
    if violation is None:
        assert judgement.violation is None
    else:
        assert judgement.violation == pytest.approx(violation, rel=1e-3)


def test_a_crash_with_exit_status_zero_is_a_crash() -> None:
    judgement = judged("core_killed", 0, Asked.NO)
    assert judgement.verdict == "engine_crash"
    assert judgement.retry is Retry.CONFIRM_ONCE


def test_an_orderly_stop_that_nobody_of_us_asked_for() -> None:
    assert judged("clean_stop", 0, Asked.NO).verdict == "unasked_exit"
    assert judged("clean_stop", 0, Asked.DONE).verdict == "stopped_cleanly"


def test_the_same_log_in_small_pieces() -> None:
    for path in LOGS.glob("*.log"):
        whole = judge(Evidence(log=read_log(path)))
        lines = path.read_bytes().splitlines(keepends=True)
        assert judge(Evidence(log=read_log(lines))) == whole
