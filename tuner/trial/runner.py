"""One trial, from its start to the proof that nothing of it is left.

Each stage is in the ledger before its work begins. Whatever happens on the way, the engine is
stopped, the proof is taken and the reason is kept; only then may the next engine start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tuner.errors import ResidueFound
from tuner.launch.base import Launch, LaunchPlan, Proof
from tuner.launch.readiness import Ended, Waited, await_ready
from tuner.load.endpoint import Endpoint
from tuner.spec.deployment import Deployment
from tuner.store.rows import Origin, TrialRow
from tuner.store.stages import Stage
from tuner.telemetry.samples import DeviceInfo, Sample
from tuner.telemetry.watch import Watch
from tuner.trial.climbing import HELD
from tuner.trial.context import Study
from tuner.trial.counted import COUNTS, as_json
from tuner.trial.early import CLEARLY_WORSE
from tuner.trial.evidence import Ending, judge_ending
from tuner.trial.exercise import read_exercise
from tuner.trial.illness import Illness
from tuner.trial.judgement import judgement_json
from tuner.trial.loads import Loads
from tuner.trial.margins import CONSTRAINT, Margins
from tuner.trial.outcome import Measured
from tuner.trial.placing import Only
from tuner.trial.probing import Probing
from tuner.trial.profiled import step_profile
from tuner.trial.pulse import DeviceWork, Pulse
from tuner.trial.readback import facts_json, read_back
from tuner.trial.rest import HOST, Rest, used_devices
from tuner.trial.retry import INTERRUPTED, INTERRUPTION, again
from tuner.trial.scrub import scrub
from tuner.trial.starting import launch_plan
from tuner.verdict import DeviceFacts, Judgement, TrialStage, Verdict


@dataclass(slots=True)
class _Live:
    """A trial whose engine is up or starting."""

    trial: TrialRow
    launch: Launch
    launch_id: int
    watch: Watch
    work: DeviceWork
    measured: Measured | None = None
    ending: Ending = field(default_factory=Ending)
    devices: tuple[DeviceInfo, ...] = ()
    devices_before: tuple[DeviceFacts, ...] = ()
    illness: Illness = field(default_factory=lambda: Illness(()))

    @property
    def failed(self) -> bool:
        """Whether something has ended the trial early."""
        return self.ending.failed


class TrialRunner:
    """Walks trials of one study through the rooms.

    Args:
        study: The study and all that it has at hand.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._loads = Loads(study)
        self._margins = Margins(study)
        self._probing = Probing(study)
        self._rest = Rest(study.ledger, study.devices)

    def run(self, trial: TrialRow) -> TrialRow:
        """Run a planned trial until it is verified; again where that is allowed.

        Returns:
            The trial in the stage ``verified``, with its verdict and its metrics; in the stage
            ``planned`` where another start is due and the study was told to stop.

        Raises:
            ResidueFound: When the engine cannot be proven gone.
        """
        while True:
            trial = self._attempt(trial)
            steps = self._study.ledger.transitions(trial.study, trial.number)
            if not again(trial, steps):
                return trial
            ended = trial
            trial = self._study.ledger.advance(trial, Stage.PLANNED)
            if self._study.cancelled.is_set():
                return trial
            self._study.voice.say(
                "retry", ended.number, verdict=ended.verdict, attempt=ended.attempt
            )

    # --- one attempt -----------------------------------------------------------------------------

    def _attempt(self, trial: TrialRow) -> TrialRow:
        live = self._start(trial)
        try:
            self._walk(live)
        except BaseException as error:
            live.ending.break_off(error)
            raise
        finally:
            trial = self._end(live)
        return trial

    def _start(self, trial: TrialRow) -> _Live:
        study = self._study
        devices = self._devices(trial)
        with self._telling(trial):
            before = self._rest.require_clean(devices, trial=trial)
        engine = study.engines[Deployment.from_json(trial.deployment).engine]
        trial = self._advance(
            trial,
            Stage.STARTING,
            {"engine": engine.digest},
            say={"origin": trial.origin, "params": trial.params},
        )
        plan = launch_plan(study, trial)
        intent = study.launcher.prepare(plan)
        launch_id = study.ledger.launch_intended(trial, trial.deployment["launch"], intent)
        launch = study.launcher.start(plan, intent)
        with stopped_on_failure(launch):
            study.ledger.launch_seen(launch_id, launch.identity())
            illness = Illness(devices)
            work = DeviceWork(device.key for device in devices)
            watch = self._watch(trial, plan, launch, devices, (illness.hear, work.note))
        return _Live(
            trial,
            launch,
            launch_id,
            watch,
            work,
            devices=devices,
            devices_before=before,
            illness=illness,
        )

    def _devices(self, trial: TrialRow) -> tuple[DeviceInfo, ...]:
        """The devices that the trial's engine will use."""
        return used_devices(self._study, Deployment.from_json(trial.deployment))

    def _watch(
        self,
        trial: TrialRow,
        plan: LaunchPlan,
        launch: Launch,
        devices: Sequence[DeviceInfo],
        hearers: Sequence[Callable[[Sample], None]],
    ) -> Watch:
        study = self._study

        def seen(sample: Sample) -> None:
            for hear in hearers:
                hear(sample)
            study.voice.say("sample", trial.number, **sample.as_json())

        watch = Watch(
            Only(study.devices, frozenset(d.key for d in devices)),
            path=plan.folder / "telemetry.jsonl",
            rate=1.0,
            on_sample=seen,
        )
        for pid in launch.pids():
            watch.follow(pid)
        watch.start()
        return watch

    def _walk(self, live: _Live) -> None:
        """The way of a trial that goes well; the first thing that does not ends it."""
        for step in (self._await, self._compare, self._probe, self._warm, self._measure):
            step(live)
            if live.failed:
                return

    # --- the steps -------------------------------------------------------------------------------

    def _await(self, live: _Live) -> None:
        study = self._study
        deployment = Deployment.from_json(live.trial.deployment)
        pulse = Pulse(
            study.voice,
            live.trial.number,
            study.space.engine.deadlines,
            loads=self._margins.facts(deployment).checkpoint_bytes,
        )
        waited = await_ready(
            live.launch,
            model=deployment.served_name,
            patience=pulse.patience,
            on_lines=pulse.lines,
            worked=lambda: live.work.last,
            cancelled=study.cancelled,
        )
        study.ledger.launch_seen(live.launch_id, live.launch.identity())
        if waited.ended is not Ended.READY:
            live.ending = Ending.of_wait(waited, live.ending.kills_before)
            return
        for pid in live.launch.pids():
            live.watch.follow(pid)
        live.trial = self._advance(live.trial, Stage.READY, _wait_json(waited))

    def _compare(self, live: _Live) -> None:
        """Hold what the engine says it runs against what was asked; by default a lie ends the trial."""
        live.ending.stage = TrialStage.READY
        deployment = Deployment.from_json(live.trial.deployment)
        found = read_back(live.launch.log, live.launch.base_url, deployment)
        live.ending.findings = found.findings
        self._study.ledger.note(
            self._study.row.id, "readback", facts_json(found), live.trial.number
        )

    def _probe(self, live: _Live) -> None:
        live.ending.stage = TrialStage.PROBING
        endpoint = self._endpoint(live)
        self._loads.probe(live.trial, endpoint, live.launch, live.ending)
        if not live.failed:
            self._probing.examine(live.trial, endpoint, live.launch, live.ending)
        if not live.failed:
            live.trial = self._advance(live.trial, Stage.PROBED)

    def _warm(self, live: _Live) -> None:
        live.ending.stage = TrialStage.LOAD
        live.watch.mark("warm")
        self._loads.warm(live.trial, self._endpoint(live), live.launch, live.ending)
        if not live.failed:
            live.trial = self._advance(live.trial, Stage.WARMED)

    def _measure(self, live: _Live) -> None:
        live.watch.mark("measure")
        endpoint = self._endpoint(live)
        printed = _size(live.launch.log)
        live.measured = self._loads.measure(live.trial, endpoint, live.launch, live.ending)
        watched = live.watch.summary("measure").as_json()
        if live.failed or live.measured is None:
            return
        if live.trial.origin is Origin.PROFILE:
            self._profiled(live, watched, step_profile(live.launch.log, printed))
            return
        after = self._probing.after(live.trial, live.measured, endpoint, live.launch, live.ending)
        if not live.failed:
            self._measured(live, live.measured, watched, after)

    def _profiled(self, live: _Live, watched: dict[str, Any], profile: dict[str, Any]) -> None:
        """Keep what a run with timed stages found: no figure of its load, as it is slower than others."""
        metrics = {"workloads": {}, "telemetry": watched, "profile": profile}
        live.trial = self._advance(live.trial, Stage.MEASURED, metrics=metrics)

    def _measured(
        self, live: _Live, measured: Measured, watched: dict[str, Any], after: dict[str, Any] | None
    ) -> None:
        # The floor counts wherever the engine was: also where it came up, was probed and warmed.
        floor = self._margins.floor(live.watch.summary().as_json())
        host = self._margins.measured(watched, Deployment.from_json(live.trial.deployment))
        memory = (-1.0 if host is None else host) if floor.relative is None else -floor.relative
        live.trial = self._advance(
            live.trial,
            Stage.MEASURED,
            metrics={
                **measured.as_json(),
                "telemetry": watched,
                "memory_floor": list(floor.reasons),
                COUNTS: as_json(live.ending.counted),
                "quality": {**self._probing.found(live.trial), "after": after},
                "exercise": read_exercise(live.launch.log, live.launch.base_url).as_json(),
                **_levels(live.ending),
            },
            score=measured.score,
            feasible=measured.feasible and floor.ok,
            constraints={**measured.constraints(), CONSTRAINT: memory},
        )

    def _endpoint(self, live: _Live) -> Endpoint:
        return Endpoint.parse(live.launch.base_url, model=live.trial.deployment["served_name"])

    # --- the end ---------------------------------------------------------------------------------

    def _end(self, live: _Live) -> TrialRow:
        """Stop the engine, say why the trial ended, and prove that nothing is left."""
        study = self._study
        live.ending.note_exit(live.launch.exit())
        with stopped_on_failure(live.launch):
            live.trial = self._advance(live.trial, Stage.STOPPING)
            starting = live.ending.stage is TrialStage.STARTING
            proof = live.launch.stop(at_once=starting or live.ending.hung)
        live.watch.stop()
        live.ending.devices = live.illness.conclude(live.devices_before)
        judgement = judge_ending(live.ending, live.launch)
        if not proof.gone:
            self._quarantine(live, proof)
        scrub(study.trial_folder(live.trial.number, live.trial.attempt), study.ledger.redact)
        study.ledger.launch_over(live.launch_id, "gone", asdict(proof))
        pairs = list(zip(live.devices, live.ending.devices, strict=False))
        sick = {device.key: facts for device, facts in pairs if facts.sick}
        if not sick:
            self._prove_back(live, live.devices)
        trial = self._advance(
            live.trial,
            Stage.VERIFIED,
            {"ladder": list(proof.ladder)},
            **verdict_of(live.trial, live.ending, judgement),
        )
        if sick:
            # What it came to on such a device is known before anything stops the study.
            self._refuse_sick(live, sick)
            self._prove_back(live, [d for d in live.devices if d.key not in sick])
        return trial

    def _refuse_sick(self, live: _Live, sick: Mapping[str, DeviceFacts]) -> None:
        """Put devices that fell ill in quarantine: no other study is to start on them either."""
        trial, ledger = live.trial, self._study.ledger
        with self._telling(trial):
            for key, facts in sick.items():
                reason = f"{facts.name} is sick: {'; '.join(facts.sick)}"
                ledger.quarantine(key, reason, study=trial.study, number=trial.number)

    def _prove_back(self, live: _Live, devices: Sequence[DeviceInfo]) -> None:
        who = f"trial {live.trial.number} of study {self._study.row.name}"
        with self._telling(live.trial):
            self._rest.prove_back(devices, who, trial=live.trial)

    @contextmanager
    def _telling(self, trial: TrialRow) -> Iterator[None]:
        """Tell those who watch what the block puts in quarantine."""
        ledger = self._study.ledger
        known = ledger.quarantined()
        try:
            yield
        finally:
            for device, reason in ledger.quarantined().items():
                if known.get(device) != reason:
                    self._study.voice.say("quarantine", trial.number, device=device, reason=reason)

    def _quarantine(self, live: _Live, proof: Proof) -> None:
        study = self._study
        trial = live.trial
        study.ledger.launch_over(live.launch_id, "quarantined", asdict(proof))
        reason = f"trial {trial.number} of study {study.row.name}: {'; '.join(proof.problems)}"
        with self._telling(trial):
            study.ledger.quarantine(HOST, reason, study=trial.study, number=trial.number)
        raise ResidueFound(
            f"the engine could not be proven gone, so nothing more is started: {reason}. "
            "`tuner doctor` says more"
        )

    def _advance(
        self,
        trial: TrialRow,
        stage: Stage,
        detail: dict[str, Any] | None = None,
        say: dict[str, Any] | None = None,
        **found: Any,
    ) -> TrialRow:
        after = self._study.ledger.advance(trial, stage, detail=detail, say=say, **found)
        self._study.voice.say(
            "stage", trial.number, stage=str(stage), attempt=after.attempt, **(say or {})
        )
        return after


def verdict_of(trial: TrialRow, ending: Ending, judgement: Judgement) -> dict[str, Any]:
    """What the ledger is to say of a trial's end."""
    if ending.interrupted and judgement.verdict is Verdict.CANCELLED:
        return {"verdict": INTERRUPTED, "judgement": INTERRUPTION}
    if ending.worse is not None and not judgement.failed:
        return {
            "verdict": CLEARLY_WORSE,
            "judgement": {**ending.worse.as_json(), **_levels(ending)},
        }
    if ending.held is not None and not judgement.failed:
        return {"verdict": HELD, "judgement": {**ending.held.as_json(), **_levels(ending)}}
    found = {
        "verdict": str(judgement.verdict) if judgement.failed else "healthy",
        # What it came to before it failed: a level that it led is to be held against that.
        "judgement": {**judgement_json(judgement), **(_levels(ending) if judgement.failed else {})},
    }
    if judgement.failed and trial.feasible:
        # What the log shows in the end takes back what was measured before.
        return {**found, "feasible": False}
    return found


@contextmanager
def stopped_on_failure(launch: Launch) -> Iterator[None]:
    """End an engine at once when the block raises: a full disk or an impatient user must not leave it."""
    try:
        yield
    except BaseException:
        launch.stop(at_once=True)
        raise


def _size(log: Path) -> int:
    """Bytes of a log so far."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def _levels(ending: Ending) -> dict[str, Any]:
    """What a trial came to on cheaper levels; nothing in a study without them."""
    return {"levels": ending.levels} if ending.levels else {}


def _wait_json(waited: Waited) -> dict[str, Any]:
    return {"seconds": round(waited.seconds, 3)}
