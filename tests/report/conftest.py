"""A study to report on, made by hand: one that went well, and one that means harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.ledgers import gates
from tests.trial.factory import trial
from tuner.report.material import Material, StepTimes
from tuner.store.rows import Event, Origin, StudyRow, TrialRow

HOSTILE = (
    "<script>alert(1)</script>",
    "</pre></code><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "]]></style><style>*{display:none}",
    "{{ 7 * 7 }}{% include 'report.css' %}",
    "```\n# a heading\n<b>bold</b>",
    "| a | b |\n|---|---|",
    "[click](javascript:alert(1)) ![x](http://127.0.0.1/x.png)",
    "\x1b[2J\x1b]0;title\x07 \x00 \u202etxt.exe\u202c \u2028",
    "&lt;b&gt; &amp; &#x3c;",
)
"""Texts as a log, a name or a path might hold them."""


def measured(number: int, score: float, **fields: Any) -> TrialRow:
    """A trial that was measured."""
    figures = {
        "weighted": score,
        "ttft_p90_s": 20000 / score,
        "output_tps": score / 100,
        "success_rate": 1.0,
        "wall_s": 10.0,
    }
    load = {"weight": 1.0, "figures": figures, "gates": gates(fields.pop("margin", 0.2))}
    metrics = {"score": score, "workloads": {"main": load}, **fields.pop("more", {})}
    return trial(number, score=score, metrics=metrics, **fields)


def failed(number: int, verdict: str, text: str, **fields: Any) -> TrialRow:
    """A trial that failed, with its proof."""
    judgement = {
        "verdict": verdict,
        "title": f"title of {verdict}",
        "evidence": [{"line": 7, "text": text}],
        "advice": "ask for less",
        "failed": True,
    }
    return trial(number, verdict=verdict, judgement=judgement, feasible=False, **fields)


def study(**fields: Any) -> StudyRow:
    """The row of a study."""
    given: dict[str, Any] = {
        "id": 1,
        "name": "tests",
        "fingerprint": "f" * 64,
        "space": "",
        "origin": "/spaces/tests.yaml",
        "status": "finished",
        "reason": None,
        "facts": {},
        "created": 0.0,
        "ended": 100.0,
    }
    return StudyRow(**{**given, **fields})


def decision(winner: int = 1, *, low: float = 1.4) -> dict[str, Any]:
    """A decision over one finalist."""
    runs = [{"arm": arm, "score": 1000.0} for arm in "ABBA"]
    return {
        "baseline": 0,
        "winner": winner,
        "clear": winner != 0,
        "comparisons": [
            {
                "number": 1,
                "answer": "better" if winner else "no clear winner",
                "broken": None,
                "runs": runs,
                "ratio": 1.5,
                "low": low,
                "high": 1.6,
                "confidence": 0.95,
                "sigma": 0.02,
                "drift": 0.01,
            }
        ],
    }


@pytest.fixture
def went_well() -> Material:
    """Four points, of which one won, one missed a gate and one failed."""
    base = {"seqs": 1, "moe": "loop", "moe_max": 4}
    points: list[dict[str, Any]] = [
        base,
        {"seqs": 8, "moe": "native"},
        {**base, "seqs": 4},
        {**base, "seqs": 2},
    ]
    trials = [
        measured(0, 1000.0, origin=Origin.BASELINE, params=points[0]),
        measured(1, 1500.0, params=points[1]),
        measured(2, 1600.0, params=points[2], feasible=False, margin=-0.1),
        failed(3, "host_oom", "Killed process 123", params=points[3]),
    ]
    for number, (of, score) in enumerate(((0, 990.0), (1, 1490.0), (1, 1520.0), (0, 1010.0)), 4):
        trials.append(measured(number, score, origin=Origin.REPEAT, repeats=of, params=points[of]))
    events = [Event(1, 1, None, "search_over", 50.0, {"trials": 4})]
    return Material(
        study=study(),
        trials=trials,
        decision=decision(),
        durations={t.number: 20.0 for t in trials},
        stages={t.number: {"ready": 10.0, "measured": 8.0, "verified": 0.5} for t in trials},
        importance={"seqs": 0.8, "moe": 0.2},
        space=["study:", "  tests: 64 points"],
        curves={0: samples(), 1: samples()},
        events=events,
        tuner="0.1.0",
    )


def samples() -> list[dict[str, Any]]:
    """Telemetry of a host with one device."""
    return [
        {
            "at": float(at),
            "stage": "measure" if at > 4 else "start",
            "host": {"cpu": 50.0 if at else None},
            "tree": {"rss": at * 2**30},
            "devices": [{"index": 0, "utilization": 90.0, "memory_used": 8 * 2**30}],
        }
        for at in range(10)
    ]


@pytest.fixture
def harmful() -> Callable[[str], Material]:
    """A study that has a text wherever a foreign text can get."""

    def make(text: str) -> Material:
        trials = [
            measured(0, 1000.0, origin=Origin.BASELINE, params={"seqs": 1, text: text}),
            measured(1, 1500.0, params={"seqs": 2, "other": text}),
            failed(2, "engine_crash", text, params={text: [text]}),
            trial(3, verdict=text, feasible=None, params={}),
        ]
        hardware = {
            "processor": text,
            "cores": 2,
            "memory_total": 1,
            "devices": [{"name": text, "memory_total": None, "driver": text}],
        }
        engine = {"digest": text, "fingerprint": {"vllm": text, "packages": {"enginex": text}}}
        facts = {
            "hardware": hardware,
            "engines": {text: engine},
            "models": {text: text},
            "tuner": text,
        }
        return Material(
            study=study(origin=text, reason=text, status="stopped", facts=facts),
            trials=trials,
            decision=None,
            stages={0: {"ready": 1.0}},
            importance={text: 1.0},
            space=[text],
            curves={0: samples()},
            profiles={
                0: StepTimes(
                    {"decode": {"steps": 1, "stages": {text: {"total_s": 1.0, "count": 1}}}}
                )
            },
            events=[Event(1, 1, None, "note", 0.0, {"text": text})],
        )

    return make
