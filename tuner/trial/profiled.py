"""Where a profiled engine's steps spend their time, from the lines that it printed into its log.

An engine whose environment has ``ENGINEX_PROFILE_DECODE=1`` prints totals by stage after every so many steps, for
prefill and for decode apart, each worker for itself and all since its start. So what one load made of them is the
difference of two such lines of one worker.

A profile is kept as the lines say it: for ``prefill`` and ``decode`` the ``steps``, and for each of the ``stages`` its
own seconds ``total_s`` and its calls ``count``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tuner.spec.deployment import Deployment

SWITCH = "ENGINEX_PROFILE_DECODE"
"""The variable that an engine must know to be profiled."""
EVERY = 20
"""Steps after which the engine prints: what a load made is known but for so many of its steps."""
_MARK = re.compile(r"\[enginex\] profile pid=(\d+) stages=(\S+)$")
_LONGEST = 100_000


class _Stage(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    total_s: float = Field(ge=0, allow_inf_nan=False)
    count: int = Field(ge=0, default=0)


class _Kind(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    steps: int = Field(ge=0, default=0)
    stages: dict[str, _Stage]


_KINDS = TypeAdapter(dict[str, _Kind])
_Kinds = Mapping[str, _Kind]
_NOTHING = _Kind(stages={})


def with_profile(deployment: Deployment, *, on_devices: bool) -> Deployment:
    """A deployment whose engine times the stages of its steps, and is the same otherwise.

    Args:
        deployment: The deployment.
        on_devices: Whether it computes on devices. Then each stage waits for them: without that the
            time to hand over the work would be taken for the time to do it.
    """
    asked = {SWITCH: "1", "ENGINEX_PROFILE_EVERY": str(EVERY)}
    if on_devices:
        asked["ENGINEX_PROFILE_SYNC"] = "1"
    return replace(deployment, env=tuple(sorted({**dict(deployment.env), **asked}.items())))


def step_profile(log: Path, since: int = 0) -> dict[str, Any]:
    """Seconds and calls by stage, for prefill and for decode, as the worker counted that printed first.

    Args:
        log: The engine's log.
        since: Bytes of the log that were there when the load began. Where the load was too short for a
            line of its own, all since the engine's start is taken.

    Returns:
        Nothing where the engine was not profiled, has run no step yet, or its log is not there.
    """
    first: str | None = None
    before: _Kinds = {}
    last: _Kinds = {}
    for end, pid, kinds in _told(log):
        first = first or pid
        if pid != first:
            continue
        if end <= since:
            before = kinds
        last = kinds
    if last == before:
        before = {}
    found = {name: _less(kind, before.get(name, _NOTHING)) for name, kind in last.items()}
    return {name: kind for name, kind in found.items() if kind["stages"]}


def _told(log: Path) -> Iterator[tuple[int, str, _Kinds]]:
    """What the lines of a log tell: where each one ends, the worker, and its totals."""
    end = 0
    try:
        with log.open("rb") as lines:
            for raw in lines:
                end += len(raw)
                if len(raw) > _LONGEST or not raw.endswith(b"\n"):
                    continue
                hit = _MARK.search(raw.decode(errors="replace").rstrip())
                if hit is None:
                    continue
                try:
                    yield end, hit[1], _KINDS.validate_json(hit[2])
                except ValidationError:
                    continue
    except OSError:
        return


def _less(kind: _Kind, before: _Kind) -> dict[str, Any]:
    """One kind of step without what was counted before, the longest stage first."""
    stages = {}
    for name, stage in kind.stages.items():
        had = before.stages.get(name, _Stage(total_s=0.0))
        count = max(0, stage.count - had.count)
        if count:
            total = max(0.0, stage.total_s - had.total_s)
            stages[name] = {"total_s": round(total, 6), "count": count}
    ordered = sorted(stages.items(), key=lambda item: -float(item[1]["total_s"]))
    return {"steps": max(0, kind.steps - before.steps), "stages": dict(ordered)}
