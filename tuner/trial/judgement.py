"""A judgement as the ledger keeps it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tuner.verdict import Judgement


def judgement_json(judgement: Judgement) -> dict[str, Any]:
    """What the ledger keeps of a judgement."""
    return {
        "verdict": str(judgement.verdict),
        "title": judgement.title,
        "stage": str(judgement.stage),
        "rule": judgement.rule,
        "evidence": [asdict(p) for p in judgement.evidence],
        "notes": [asdict(p) for p in judgement.notes],
        "advice": judgement.advice,
        "teaches": judgement.teaches,
        "retry": str(judgement.retry),
        "violation": judgement.violation,
        "failed": judgement.failed,
    }
