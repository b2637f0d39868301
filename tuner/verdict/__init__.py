"""The verdict: why an engine ended as it did, and the lines that prove it."""

from __future__ import annotations

from tuner.verdict.evidence import (
    Asked,
    DeviceFacts,
    Evidence,
    ExitFacts,
    Finding,
    HttpFacts,
    TrialStage,
)
from tuner.verdict.judge import Judgement, judge
from tuner.verdict.kinds import Retry, Stage, Verdict
from tuner.verdict.reading import LogReading, Numbers, Proof
from tuner.verdict.scan import read_log

__all__ = [
    "Asked",
    "DeviceFacts",
    "Evidence",
    "ExitFacts",
    "Finding",
    "HttpFacts",
    "Judgement",
    "LogReading",
    "Numbers",
    "Proof",
    "Retry",
    "Stage",
    "TrialStage",
    "Verdict",
    "judge",
    "read_log",
]
