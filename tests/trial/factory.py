"""Rows of a ledger for tests that need none."""

from __future__ import annotations

from typing import Any

from tuner.store.rows import Origin, TrialRow
from tuner.store.stages import Stage

DEPLOYMENT: dict[str, Any] = {
    "recipe": "cpu",
    "model": "m",
    "launch": "process",
    "argv": [],
    "env": {},
    "served_name": "llm",
    "files": {},
    "secrets": {},
    "image": None,
    "version": None,
}
"""A deployment that sets nothing."""


def trial(number: int, **fields: Any) -> TrialRow:
    """A trial with the fields that matter to the test."""
    given: dict[str, Any] = {
        "study": 1,
        "number": number,
        "origin": Origin.SEARCH,
        "repeats": None,
        "block": None,
        "params": {},
        "assignment": None,
        "deployment": {},
        "stage": Stage.TOLD,
        "attempt": 1,
        "verdict": "healthy",
        "judgement": None,
        "metrics": None,
        "score": None,
        "feasible": True,
        "constraints": None,
        "value": None,
        "created": 0.0,
        "ended": None,
    }
    return TrialRow(**{**given, **fields})
