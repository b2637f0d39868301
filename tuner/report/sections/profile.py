"""Where a step spends its time: the stages that a profiled engine timed, prefill and decode apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tuner.report.blocks import Block, Heading, Picture, code, paragraph, table
from tuner.report.material import Material
from tuner.report.pictures.bars import profile as picture_of
from tuner.report.text import one_line
from tuner.store.rows import Origin, TrialRow

KINDS = ("decode", "prefill")
"""The kinds of step, in the order in which they are shown: one with a prompt's tokens is prefill."""
HEAD = ("stage", "total, ms", "mean, ms", "count", "share")


class StageRow(NamedTuple):
    """One stage of one kind of step.

    Attributes:
        stage: Its name.
        total_s: Its own seconds, without what it contains.
        mean_s: Seconds of one call.
        calls: How often it ran.
        share: Of all seconds of this kind of step.
    """

    stage: str
    total_s: float
    mean_s: float
    calls: int
    share: float

    def cells(self) -> list[str]:
        """The row as text, under :data:`HEAD`."""
        return [
            one_line(self.stage),
            f"{1e3 * self.total_s:,.1f}",
            f"{1e3 * self.mean_s:.3f}",
            f"{self.calls:,}",
            f"{self.share:.1%}",
        ]


def stage_rows(kind: Mapping[str, Any]) -> list[StageRow]:
    """The stages of one kind of step, the longest first."""
    stages: Mapping[str, Mapping[str, Any]] = kind["stages"]
    whole = sum(float(s["total_s"]) for s in stages.values())
    found = [
        StageRow(
            name,
            float(s["total_s"]),
            float(s["total_s"]) / s["count"] if s["count"] else 0.0,
            int(s["count"]),
            float(s["total_s"]) / whole if whole else 0.0,
        )
        for name, s in stages.items()
    ]
    return sorted(found, key=lambda row: -row.total_s)


def summary(kind: str, data: Mapping[str, Any]) -> str:
    """How many steps of a kind there were, and how long they took."""
    whole = sum(row.total_s for row in stage_rows(data))
    steps = int(data["steps"])
    mean = f", {1e3 * whole / steps:.2f} ms each" if steps else ""
    return f"{kind}: {steps:,} steps in {whole:.2f} s{mean}"


def profiles(material: Material) -> Iterator[Block]:
    """A table and a picture for each trial whose engine was profiled."""
    found = {n: p for n, p in material.profiles.items() if any(p.kinds.get(k) for k in KINDS)}
    nothing = [t for t in material.trials if _in_vain(material, t)]
    if not found and not nothing:
        return
    yield Heading("Where a step spends its time")
    for number, profile in found.items():
        timed = {kind: profile.kinds[kind] for kind in KINDS if profile.kinds.get(kind)}
        kinds = {kind: stage_rows(data) for kind, data in timed.items()}
        picture = picture_of({k: [(r.stage, r.share) for r in rows] for k, rows in kinds.items()})
        if picture is not None:
            says = f"Share of each stage in the steps of trial {number}."
            yield Picture(f"profile-{number}", picture, says)
        for kind, rows in kinds.items():
            yield Heading(f"Trial {number}, {summary(kind, timed[kind])}", 3)
            yield table(HEAD, [row.cells() for row in rows], numeric=(1, 2, 3, 4))
        yield _how(material, profile.run)
    for trial in nothing:
        what = f"Trial {trial.number}, a profile of trial {trial.repeats}, found nothing: "
        yield paragraph(what, code(str(trial.verdict)), ".")


def _how(material: Material, number: int | None) -> Block:
    """How the stages were timed: in the run with that number, or in the trial itself."""
    own = "Each stage has its own time, without the stages inside it."
    if number is None:
        return paragraph(f"{own} The engine of the trial itself was told to time its stages.")
    run = material.trial(number)
    env = {} if run is None else run.deployment.get("env", {})
    waits = env.get("ENGINEX_PROFILE_SYNC") == "1"
    sync = " Each stage waited for the device." if waits else ""
    return paragraph(
        f"{own} Timed in trial {number}, a run of its own after the search, under the study's load:"
        f" where the time goes, not how fast the engine is, as timing slows it.{sync}"
    )


def _in_vain(material: Material, trial: TrialRow) -> bool:
    """Whether a trial was to profile another one, is over, and left nothing to show."""
    if trial.origin is not Origin.PROFILE or trial.verdict is None:
        return False
    shown = {times.run for times in material.profiles.values()}
    return trial.number not in shown and not (trial.metrics or {}).get("profile")
