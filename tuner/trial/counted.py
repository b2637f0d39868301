"""Whether engines count tokens as their own tokenizer does; figures of what is miscounted mean nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.load.check import TokenCheck, check_tokens
from tuner.load.endpoint import Endpoint
from tuner.load.plan import Plan
from tuner.load.run import LoadResult
from tuner.load.tokens import ServerTokens, TokensUnknown

COUNTS = "token_counts"
"""Where a trial's metrics keep what was found, by workload."""
_SAMPLE = 4
"""Prompts of each load that are counted again: a server that miscounts does so each time."""


def counted_again(plan: Plan, result: LoadResult, endpoint: Endpoint) -> TokenCheck | None:
    """Hold a load's token counts against its server's tokenizer; None where the server has none.

    Called when the load is over, so that nothing of it waits for the tokenizer.
    """
    try:
        with ServerTokens(endpoint) as tokens:
            return check_tokens(plan, result, tokens, sample=_SAMPLE)
    except TokensUnknown:
        return None


def as_json(found: Mapping[str, TokenCheck]) -> dict[str, Any]:
    """What the ledger keeps of all loads."""
    return {name: check.as_json() for name, check in found.items()}


def miscounted(
    found: Mapping[str, TokenCheck], baseline: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """Loads whose counts are off, in words.

    Args:
        found: What was found, by workload.
        baseline: What was found at the baseline. A load that was off there already is left out: it
            is no fault of the trial's, and was said. None for the baseline itself.
    """
    held = set(found)
    if baseline is not None:
        held = {name for name, check in baseline.items() if check["off"] == 0}
    return tuple(
        f"workload {name}: the token counts are not those of the server's own tokenizer: {check.words}"
        for name, check in found.items()
        if name in held and not check.holds
    )
