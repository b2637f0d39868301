from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verdict.cases import load_cases
from tuner.verdict import (
    Asked,
    DeviceFacts,
    Evidence,
    ExitFacts,
    Finding,
    HttpFacts,
    LogReading,
    Proof,
    Retry,
    Stage,
    TrialStage,
    Verdict,
    judge,
    read_log,
)
from tuner.verdict.signals import SIGNALS, signals_of

GIB = 2**30
READY = ["INFO:     Application startup complete."]
STARTING = ["INFO 11-30 10:00:00 [gpu_model_runner.py:1] Starting to load model /models/m..."]
ERROR = "(EngineCore pid=5) ERROR 11-30 10:00:00 [core.py:1] "
OOM_TEXT = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
OOM = [ERROR + OOM_TEXT + "GPU 0 has a total capacity of 40.00 GiB of which 1.00 GiB is free."]
UNKNOWN_CRASH = [ERROR + "IndexError: list index out of range"]


def log(*parts: list[str]) -> LogReading:
    return read_log([line for part in parts for line in part])


def test_no_evidence_is_unknown_and_never_teaches() -> None:
    judgement = judge(Evidence())
    assert judgement.verdict is Verdict.UNKNOWN
    assert not judgement.teaches
    assert judgement.violation is None


def test_unknown_keeps_the_last_lines() -> None:
    lines = [f"line {number}" for number in range(50)]
    judgement = judge(Evidence(log=read_log(lines), exit=ExitFacts(status=3)))
    assert judgement.verdict is Verdict.UNKNOWN
    assert judgement.retry is Retry.CONFIRM_ONCE
    assert [proof.text for proof in judgement.evidence if proof.line][-20:] == lines[-20:]
    assert "exit status 3" in [proof.text for proof in judgement.evidence]
    assert len(set(judgement.evidence)) == len(judgement.evidence)


def test_an_empty_log() -> None:
    assert judge(Evidence(log=read_log([]))).verdict is Verdict.UNKNOWN


def test_cancelled_stands_above_all() -> None:
    evidence = Evidence(log=log(STARTING, OOM), exit=ExitFacts(signal=9), asked=Asked.CANCEL)
    assert judge(evidence).verdict is Verdict.CANCELLED


def test_a_sick_device_stands_above_the_log_and_stops_the_study() -> None:
    device = DeviceFacts("GPU 2", sick=("clock 25 MHz", "65535 W"))
    judgement = judge(Evidence(log=log(STARTING, OOM), devices=(device,)))
    assert (judgement.verdict, judgement.retry) == (Verdict.SICK_DEVICE, Retry.STOP_STUDY)
    assert "65535 W" in judgement.evidence[0].text


@pytest.mark.parametrize(
    ("before", "verdict"),
    [
        (257 * 2**20, Verdict.DEVICE_OOM_LOAD),
        (257 * 2**20 + int(0.02 * 32 * GIB), Verdict.DEVICE_OOM_LOAD),
        (257 * 2**20 + int(0.02 * 32 * GIB) + 2, Verdict.RESIDUE),
        (28 * GIB, Verdict.RESIDUE),
        (None, Verdict.DEVICE_OOM_LOAD),
    ],
)
def test_dirty_memory_is_not_blamed_on_the_configuration(
    before: int | None, verdict: Verdict
) -> None:
    device = DeviceFacts("GPU 1", baseline=257 * 2**20, before=before, total=32 * GIB)
    judgement = judge(Evidence(log=log(STARTING, OOM), devices=(device,)))
    assert judgement.verdict is verdict
    assert judgement.teaches is (verdict is not Verdict.RESIDUE)
    assert (judgement.violation is None) is (verdict is Verdict.RESIDUE)


def test_dirty_memory_does_not_hide_another_failure() -> None:
    device = DeviceFacts("GPU 1", baseline=0, before=20 * GIB, total=32 * GIB)
    lines = ["api_server.py: error: unrecognized arguments: --x"]
    assert judge(Evidence(log=read_log(lines), devices=(device,))).verdict is Verdict.FLAGS_REJECTED


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        (Evidence(exit=ExitFacts(signal=9)), Verdict.HOST_OOM),
        (Evidence(exit=ExitFacts(signal=9), asked=Asked.NO), Verdict.ENGINE_CRASH),
        (Evidence(exit=ExitFacts(signal=9), asked=Asked.NO, oom_kills=0), Verdict.ENGINE_CRASH),
        (Evidence(exit=ExitFacts(signal=9), oom_kills=0), Verdict.ENGINE_CRASH),
        (Evidence(exit=ExitFacts(signal=9), asked=Asked.NO, oom_kills=2), Verdict.HOST_OOM),
        (Evidence(exit=ExitFacts(signal=9), docker_oom_killed=True), Verdict.HOST_OOM),
        (Evidence(exit=ExitFacts(signal=9), asked=Asked.DONE), Verdict.STOPPED_CLEANLY),
        (Evidence(exit=ExitFacts(signal=11)), Verdict.ENGINE_CRASH),
        (Evidence(exit=ExitFacts(signal=6)), Verdict.ENGINE_CRASH),
        (Evidence(exit=ExitFacts(signal=15), asked=Asked.NO), Verdict.UNASKED_EXIT),
        (Evidence(exit=ExitFacts(signal=2), asked=Asked.NO), Verdict.UNASKED_EXIT),
        (Evidence(exit=ExitFacts(signal=2)), Verdict.CANCELLED),
        (Evidence(exit=ExitFacts(signal=15)), Verdict.CANCELLED),
        (Evidence(exit=ExitFacts(signal=15), asked=Asked.DONE), Verdict.STOPPED_CLEANLY),
        (Evidence(exit=ExitFacts(status=0), asked=Asked.NO), Verdict.UNASKED_EXIT),
        (Evidence(exit=ExitFacts(status=0), asked=Asked.DONE), Verdict.STOPPED_CLEANLY),
        (Evidence(exit=ExitFacts(status=0)), Verdict.UNKNOWN),
        (Evidence(exit=ExitFacts(status=1)), Verdict.UNKNOWN),
        (Evidence(port_holder="another program"), Verdict.PORT_TAKEN),
    ],
)
def test_exits_without_a_log(evidence: Evidence, verdict: Verdict) -> None:
    assert judge(evidence).verdict is verdict


@pytest.mark.parametrize(
    "ended", [ExitFacts(signal=2), ExitFacts(signal=15), ExitFacts(status=0), ExitFacts(status=1)]
)
def test_a_start_that_nobody_asked_to_stop_was_not_cancelled(ended: ExitFacts) -> None:
    stopped = log(STARTING, ["INFO:     Shutting down"])
    assert judge(Evidence(log=stopped)).verdict is Verdict.CANCELLED
    for reading in (log(STARTING), stopped):
        judgement = judge(Evidence(log=reading, exit=ended, asked=Asked.NO))
        assert judgement.verdict in {Verdict.UNASKED_EXIT, Verdict.UNKNOWN}
        assert judgement.retry is Retry.CONFIRM_ONCE


def test_exit_zero_with_a_log_that_shows_no_stop() -> None:
    ended = ExitFacts(status=0)
    assert judge(Evidence(log=log(READY), exit=ended)).verdict is Verdict.UNASKED_EXIT
    assert (
        judge(Evidence(log=log(READY), exit=ended, asked=Asked.DONE)).verdict
        is Verdict.STOPPED_CLEANLY
    )


def test_out_of_memory_of_the_engine_s_own_cgroup_teaches_when_confirmed() -> None:
    judgement = judge(Evidence(log=log(STARTING), exit=ExitFacts(signal=9), oom_kills=1))
    assert (judgement.verdict, judgement.teaches, judgement.retry) == (
        Verdict.HOST_OOM,
        True,
        Retry.CONFIRM_ONCE,
    )


@pytest.mark.parametrize(
    ("evidence", "verdict", "stage"),
    [
        (
            Evidence(log=log(STARTING), asked=Asked.DEADLINE, stage=TrialStage.STARTING, silence=200, deadline=180),
            Verdict.START_HANG,
            Stage.LOADING,
        ),
        (
            Evidence(log=log(READY), asked=Asked.DEADLINE, stage=TrialStage.LOAD, silence=200, deadline=180),
            Verdict.RUN_HANG,
            Stage.SERVING,
        ),
        (
            Evidence(log=log(READY), stage=TrialStage.LOAD, request_stalled=True, running=True),
            Verdict.RUN_HANG,
            Stage.SERVING,
        ),
        (
            Evidence(log=log(STARTING), stage=TrialStage.STARTING, silence=20, deadline=180),
            Verdict.UNKNOWN,
            Stage.LOADING,
        ),
    ],
)  # fmt: skip
def test_hangs(evidence: Evidence, verdict: Verdict, stage: Stage) -> None:
    judgement = judge(evidence)
    assert (judgement.verdict, judgement.stage) == (verdict, stage)


def test_a_hang_after_a_known_failure_is_that_failure() -> None:
    evidence = Evidence(log=log(STARTING, OOM), asked=Asked.DEADLINE, silence=300, deadline=180)
    assert judge(evidence).verdict is Verdict.DEVICE_OOM_LOAD


@pytest.mark.parametrize(
    ("http", "lines", "verdict"),
    [
        (
            HttpFacts(health=200, completion=500, asked_completion=True),
            READY,
            Verdict.DEAD_BEHIND_HEALTH,
        ),
        (
            HttpFacts(health=200, completion=None, asked_completion=True),
            READY,
            Verdict.DEAD_BEHIND_HEALTH,
        ),
        (HttpFacts(health=200, engine_dead=True), READY, Verdict.DEAD_BEHIND_HEALTH),
        (
            HttpFacts(health=503, completion=500, asked_completion=True),
            READY + OOM,
            Verdict.DEVICE_OOM_RUN,
        ),
        (
            HttpFacts(health=200, completion=500, asked_completion=True),
            READY + OOM,
            Verdict.DEVICE_OOM_RUN,
        ),
        (HttpFacts(health=200, completion=200, asked_completion=True), READY, Verdict.HEALTHY),
        (HttpFacts(health=200), READY, Verdict.HEALTHY),
    ],
)
def test_what_the_server_answers(http: HttpFacts, lines: list[str], verdict: Verdict) -> None:
    assert judge(Evidence(log=read_log(lines), http=http, running=True)).verdict is verdict


def finding(kind: str) -> Finding:
    return Finding("enable_prefix_caching", "on", "off", kind, Proof(7, "it was disabled"))


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        ("differs", Verdict.CONFIG_DIFFERS),
        ("ignored", Verdict.CONFIG_DIFFERS),
        ("fell_back", Verdict.SILENT_FALLBACK),
        ("not_shown", Verdict.SILENT_FALLBACK),
    ],
)
def test_findings_decide_when_nothing_failed(kind: str, verdict: Verdict) -> None:
    found = judge(Evidence(log=log(READY), findings=(finding(kind),), running=True))
    assert found.verdict is verdict
    assert found.evidence[0].line == 7
    assert "asked on, found off" in found.evidence[0].text
    died = judge(Evidence(log=log(READY, OOM), findings=(finding(kind),)))
    assert died.verdict is Verdict.DEVICE_OOM_RUN


def test_numbers_that_a_probe_found() -> None:
    evidence = Evidence(log=log(READY), non_finite="the probe's logprobs are NaN", running=True)
    assert judge(evidence).verdict is Verdict.NON_FINITE


def test_a_restart_loop_is_judged_by_the_last_start_that_came_to_anything() -> None:
    banner = ["INFO 11-30 10:00:00 [api_server.py:1896] vLLM API server version 0.10.2"]
    kv = ["ValueError: No available memory for the cache blocks. Try increasing it."]
    loop = banner + STARTING + kv + ["vllm-1 exited with code 1 (restarting)"]
    again = judge(Evidence(log=log(loop * 3, banner, STARTING)))
    assert (again.verdict, again.starts) == (Verdict.KV_SPACE, 4)
    mended = judge(Evidence(log=log(loop, banner, STARTING, READY)))
    assert (mended.verdict, mended.starts) == (Verdict.HEALTHY, 2)


def test_an_error_that_the_engine_survived_while_it_started_is_no_failure() -> None:
    assert judge(Evidence(log=log(STARTING, OOM, READY))).verdict is Verdict.HEALTHY


def test_an_error_that_the_engine_survived_while_it_served_is_no_failure() -> None:
    served = ['INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK']
    odd = ["ERROR 11-30 10:00:00 [cache.py:1] RuntimeError: NCCL error: internal error"]
    assert judge(Evidence(log=log(READY, served, odd, served))).verdict is Verdict.HEALTHY


def test_the_root_cause_wins_over_what_others_print() -> None:
    echoes = [
        ERROR
        + "Exception: WorkerProc initialization failed due to an exception. See stack trace for root cause.",
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.",
        "RuntimeError: Gloo connectFullMesh failed with Connection reset by peer",
    ]
    for order in (
        STARTING + OOM + echoes,
        STARTING + echoes + OOM,
        STARTING + echoes[:1] + OOM + echoes[1:],
    ):
        judgement = judge(Evidence(log=read_log(order)))
        assert judgement.verdict is Verdict.DEVICE_OOM_LOAD
        assert {proof.text for proof in judgement.evidence} >= {
            echoes[1].removeprefix("(APIServer pid=1) ")
        }


def test_a_crash_without_a_known_cause_is_a_crash_to_be_confirmed() -> None:
    judgement = judge(Evidence(log=log(READY, UNKNOWN_CRASH), exit=ExitFacts(status=1)))
    assert (judgement.verdict, judgement.retry) == (Verdict.ENGINE_CRASH, Retry.CONFIRM_ONCE)


READINGS = [read_log(case.lines) for case in load_cases()] + [
    read_log([]),
    log(READY),
    log(STARTING),
]
EVIDENCE = st.builds(
    Evidence,
    log=st.none() | st.sampled_from(READINGS),
    exit=st.none()
    | st.builds(
        ExitFacts.from_code, st.sampled_from([0, 1, 2, -9, -15, -2, -11, 137, 143, 139, 255])
    ),
    running=st.sampled_from([None, True, False]),
    asked=st.sampled_from([None, *Asked]),
    stage=st.sampled_from([None, *TrialStage]),
    silence=st.none() | st.floats(0, 1e4),
    deadline=st.none() | st.floats(1, 1e4),
    request_stalled=st.booleans(),
    http=st.none()
    | st.builds(
        HttpFacts,
        health=st.sampled_from([None, 200, 503]),
        completion=st.sampled_from([None, 200, 400, 500]),
        asked_completion=st.booleans(),
        engine_dead=st.booleans(),
    ),
    oom_kills=st.sampled_from([None, 0, 1]),
    docker_oom_killed=st.sampled_from([None, True, False]),
    port_holder=st.sampled_from([None, "someone"]),
    findings=st.sampled_from([(), (finding("differs"),), (finding("fell_back"),)]),
    non_finite=st.sampled_from([None, "NaN"]),
)


@given(EVIDENCE)
@settings(max_examples=400, deadline=None)
def test_any_evidence_has_one_judgement(evidence: Evidence) -> None:
    judgement = judge(evidence)
    assert judge(evidence) == judgement
    assert judgement.evidence
    if judgement.violation is not None:
        assert judgement.teaches
        assert judgement.violation > 0
    if judgement.verdict in (
        Verdict.UNKNOWN,
        Verdict.CANCELLED,
        Verdict.RESIDUE,
        Verdict.SICK_DEVICE,
        Verdict.PORT_TAKEN,
    ):
        assert not judgement.teaches
    if evidence.asked is Asked.CANCEL:
        assert judgement.verdict is Verdict.CANCELLED
    raised = set(signals_of(evidence, None, evidence.exit))
    assert raised <= SIGNALS


def test_evidence_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Evidence().asked = Asked.NO  # type: ignore[misc]  # what the test is about


@pytest.mark.parametrize(
    ("code", "status", "signal"),
    [
        (0, 0, None),
        (1, 1, None),
        (-9, None, 9),
        (137, None, 9),
        (143, None, 15),
        (128, 128, None),
        (255, 255, None),
    ],
)
def test_exit_codes(code: int, status: int | None, signal: int | None) -> None:
    assert ExitFacts.from_code(code) == ExitFacts(status, signal)


STOPPED = ["INFO:     Shutting down", "INFO:     Application shutdown complete."]


@pytest.mark.parametrize("asked", [None, Asked.NO])
def test_what_was_killed_in_its_stop_did_not_stop_in_order(asked: Asked | None) -> None:
    seen = log(READY, STOPPED)
    judgement = judge(Evidence(log=seen, exit=ExitFacts.from_code(137), asked=asked))
    assert judgement.verdict is Verdict.ENGINE_CRASH
    assert "SIGKILL" in judgement.advice
    assert not judgement.teaches
    assert judge(Evidence(log=seen, exit=ExitFacts(status=0))).verdict is Verdict.STOPPED_CLEANLY
