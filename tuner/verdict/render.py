"""A judgement for people and for programs."""

from __future__ import annotations

import textwrap
from typing import Any

from tuner.quantity import format_bytes
from tuner.verdict.judge import Judgement
from tuner.verdict.reading import Numbers, Proof

_WIDTH = 100
_LINE_WIDTH = 400
_RETRY = {
    "none": "",
    "after_cleanup": "Once that is gone, the same configuration may be tried again.",
    "confirm_once": "Seen once, this may be chance: try the same configuration once more.",
    "confirm_then_stop": "Seen once, this may be chance: try the same configuration once more. Seen "
    "twice, no configuration can be judged until a person has mended this.",
    "stop_study": "No configuration can be judged until a person has mended this.",
}


def as_json(judgement: Judgement) -> dict[str, Any]:
    """A judgement as JSON-ready data; the keys are stable."""
    numbers = judgement.numbers
    return {
        "verdict": judgement.verdict.value,
        "title": judgement.title,
        "stage": judgement.stage.value,
        "rule": judgement.rule,
        "failed": judgement.failed,
        "teaches": judgement.teaches,
        "retry": judgement.retry.value,
        "violation": judgement.violation,
        "numbers": None
        if numbers is None
        else {
            "unit": numbers.unit,
            "asked": numbers.asked,
            "available": numbers.available,
            "total": numbers.total,
        },
        "exit": None
        if judgement.exit is None
        else {"status": judgement.exit.status, "signal": judgement.exit.signal},
        "starts": judgement.starts,
        "evidence": [_proof_json(proof) for proof in judgement.evidence],
        "notes": [_proof_json(proof) for proof in judgement.notes],
        "advice": judgement.advice,
    }


def as_text(judgement: Judgement) -> str:
    """A judgement as a few paragraphs of plain text."""
    parts = [
        f"verdict  {judgement.verdict.value}: {judgement.title}",
        f"stage    {judgement.stage.value}",
    ]
    if judgement.exit is not None:
        parts.append(f"exit     {judgement.exit.words}")
    if judgement.starts > 1:
        parts.append(
            f"starts   {judgement.starts} in this log; the last that came to anything counts"
        )
    if judgement.numbers is not None:
        parts.append(f"amounts  {amounts(judgement.numbers)}")
    parts += ["", "proof", *map(_proof_text, judgement.evidence)]
    if judgement.notes:
        parts += ["", "also seen", *map(_proof_text, judgement.notes)]
    advice = " ".join(filter(None, (judgement.advice, _RETRY[judgement.retry.value])))
    parts += ["", "what to do", textwrap.indent(textwrap.fill(advice, _WIDTH - 2), "  ")]
    return "\n".join(parts) + "\n"


def amounts(numbers: Numbers) -> str:
    """Amounts for people: ``asked 64.0 GiB, available 8.9 GiB``."""
    named = (("asked", numbers.asked), ("available", numbers.available), ("of", numbers.total))
    return ", ".join(
        f"{name} {_amount(value, numbers.unit)}" for name, value in named if value is not None
    )


def _amount(value: float, unit: str) -> str:
    return format_bytes(value) if unit == "bytes" else f"{value:,.0f} {unit}"


def _proof_json(proof: Proof) -> dict[str, Any]:
    return {"line": proof.line, "text": proof.text}


def _proof_text(proof: Proof) -> str:
    text = proof.text.strip()
    if len(text) > _LINE_WIDTH:
        text = text[:_LINE_WIDTH] + " …"
    return f"  {proof.line if proof.line is not None else '-':>8}  {text}"
