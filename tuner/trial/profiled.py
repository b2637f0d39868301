"""Where a profiled engine's steps spend their time, from the lines that it printed into its log.

An engine whose environment has ``ENGINEX_PROFILE_DECODE=1`` prints totals by stage after every so many steps, for
prefill and for decode, each worker for itself. The last such line holds all of them.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

_MARK = "[enginex] profile pid="
_LONGEST = 100_000


class _Stage(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    total_s: float = Field(ge=0, allow_inf_nan=False)


class _Kind(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    stages: dict[str, _Stage]


_KINDS = TypeAdapter(dict[str, _Kind])


def decode_profile(log: Path) -> dict[str, float]:
    """Seconds by stage of the steps without a prompt, as one worker counted them.

    Args:
        log: The engine's log.

    Returns:
        Nothing where the engine was not profiled, has not decoded yet, or its log is not there.
    """
    last: str | None = None
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if _MARK in line and len(line) < _LONGEST and line.endswith("\n"):
                    last = line
    except OSError:
        return {}
    if last is None:
        return {}
    try:
        kinds = _KINDS.validate_json(last.split(" stages=", 1)[-1])
    except ValidationError:
        return {}
    found = kinds.get("decode")
    return {} if found is None else {name: s.total_s for name, s in found.stages.items()}
