"""What an engine really runs with, by its own words, held against what was asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tuner.spec.deployment import Deployment
from tuner.verdict import Finding, Proof, read_log

_MARKER = re.compile(
    r"\[enginex\] moe variant=(?P<asked>\S+) .*?effective=(?P<found>\S+)(?: reason=(?P<why>.*))?"
)


@dataclass(frozen=True, slots=True)
class Readback:
    """What was read back.

    Attributes:
        findings: Where it is not what was asked.
    """

    findings: tuple[Finding, ...]


def read_back(log: Path, deployment: Deployment) -> Readback:
    """Compare an engine's log with what was asked of it.

    Args:
        log: The engine's log up to now.
        deployment: What was asked.
    """
    facts = read_log(log).facts
    findings = []
    asked = dict(deployment.env).get("ENGINEX_MOE_TINY_IMPL")
    if asked is not None:
        markers = [
            (r, found) for r in facts.markers if (found := _MARKER.search(r.text)) is not None
        ]
        for remark, found in markers:
            if found["found"] != asked:
                proof = Proof(line=remark.line, text=remark.text)
                findings.append(
                    Finding("ENGINEX_MOE_TINY_IMPL", asked, found["found"], "fell_back", proof)
                )
    return Readback(tuple(findings))
