"""Working on a study: from what the ledger says of it to a decision and its files."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Literal, TypeVar

from tuner import __version__, spec
from tuner.build import Engine, Progress, build_engine, make_model
from tuner.errors import NothingFeasible, TunerError, UserError, ungrouped
from tuner.launch.base import Launcher
from tuner.launch.identity import myself
from tuner.launch.kinds import launchers
from tuner.spec import Context, SearchSpace
from tuner.spec.settings import EngineChoice, ModelChoice
from tuner.store.ledger import Ledger
from tuner.store.locks import hold_study
from tuner.store.queue import Queue
from tuner.store.redact import SHORTEST, Redactor
from tuner.store.rows import StudyRow
from tuner.telemetry.detect import detect
from tuner.telemetry.hardware import Hardware, detect_hardware
from tuner.trial.admission import check_models, check_targets, model_folder, uses_devices
from tuner.trial.context import Study
from tuner.trial.decision import Decision
from tuner.trial.deliver import deliver, write_report
from tuner.trial.entry import attempt_folder, secret_names, stored_space, study_folder
from tuner.trial.events import Voice, Watcher
from tuner.trial.leases import device_env, hold_devices, needed
from tuner.trial.profiling import profile_winner
from tuner.trial.recovery import end_leftovers
from tuner.trial.scoring import gates_of, objective_of, weights_of
from tuner.trial.scrub import scrub
from tuner.trial.study import StudyRunner
from tuner.trial.wishes import Wishes

T = TypeVar("T")


def work(
    ledger: Ledger,
    row: StudyRow,
    *,
    watchers: Sequence[Watcher],
    wishes: Wishes,
    devices: Sequence[str] | None = None,
) -> Decision | None:
    """Work on a study until it is decided, or told to stop.

    Builds what must be built, ends what an earlier tuner left of this study, goes on where the
    ledger stands, writes the report and the export of the winner, and keeps the study's status true
    whatever happens.

    Args:
        ledger: The ledger, open for writing.
        row: The study.
        watchers: Are told what happens.
        wishes: What is wished of it from outside.
        devices: The only devices that it may use, by key; None for those that its space asks for.

    Raises:
        StateUnusable: When another process works on the study.
        NothingFeasible: When no trial passed the gates.
        TunerError: When it cannot be worked on.
    """
    holder = {"study": row.name, "state": str(ledger.folder), **myself()}
    with hold_study(study_folder(ledger, row.name), holder):
        return _held(ledger, row, Voice(ledger, row.id, *watchers), wishes, devices)


def borrow(
    ledger: Ledger,
    row: StudyRow,
    job: Callable[[Study], T],
    *,
    watchers: Sequence[Watcher],
    wishes: Wishes,
) -> T | None:
    """Make a study ready as for work, and do something else with it; its status stays as it is.

    It uses the devices that the study was submitted with.

    Args:
        ledger: The ledger, open for writing.
        row: The study.
        job: What to do.
        watchers: Are told what happens.
        wishes: What is wished of it from outside.

    Returns:
        What the job returns; None when it was told to end before it began.

    Raises:
        StateUnusable: When another process works on the study.
        TunerError: When it cannot be made ready.
    """
    holder = {"study": row.name, "state": str(ledger.folder), **myself()}
    with hold_study(study_folder(ledger, row.name), holder):
        voice = Voice(ledger, row.id, *watchers)
        try:
            entry = Queue(ledger).find(row.id)
            devices = None if entry is None else entry.devices
            study = _ready(ledger, row, voice, wishes, devices)
            return _with_devices(study, devices, job)
        except _ToldToStop:
            return None


def _held(
    ledger: Ledger, row: StudyRow, voice: Voice, wishes: Wishes, devices: Sequence[str] | None
) -> Decision | None:
    try:
        ledger.set_status(row.id, "running")
        with ungrouped():
            decision = _decided(ledger, row, voice, wishes, devices)
    except NothingFeasible as error:
        ledger.set_status(row.id, "finished", str(error), exit_code=error.exit_code)
        raise
    except TunerError as error:
        ledger.set_status(row.id, "failed", str(error), exit_code=error.exit_code)
        raise
    except BaseException as error:
        # A defect ends the study; an interrupt from the keyboard only stops it.
        status = "failed" if isinstance(error, Exception) else "stopped"
        reason = f"{type(error).__name__}: {error}"
        ledger.set_status(row.id, status, reason, exit_code=TunerError.exit_code)
        raise
    if decision is None:
        paused = not wishes.cancelled.is_set()
        ledger.set_status(row.id, "paused" if paused else "stopped", "told to", exit_code=0)
    else:
        ledger.set_status(row.id, "finished", exit_code=0)
    return decision


def _decided(
    ledger: Ledger, row: StudyRow, voice: Voice, wishes: Wishes, devices: Sequence[str] | None
) -> Decision | None:
    try:
        study = _ready(ledger, row, voice, wishes, devices)
        return _with_devices(study, devices, _worked)
    except _ToldToStop:
        return None
    except NothingFeasible:
        voice.say("delivered", report=str(write_report(ledger, row)), export=None)
        raise


def _worked(study: Study) -> Decision | None:
    """Search, decide, deliver; then look where the winner's time goes, where that is asked for."""
    runner = StudyRunner(study)
    decision = runner.run()
    if decision is None:
        return None
    ledger, row = study.ledger, study.ledger.study(study.row.name)
    report = write_report(ledger, row)
    exported = deliver(ledger, row, decision.winner)
    study.voice.say("delivered", report=str(report), export=str(exported))
    if study.space.document.decode_profile:
        if not profile_winner(study, runner, decision.winner):
            return None
        write_report(ledger, row)
    return decision


def _ready(
    ledger: Ledger, row: StudyRow, voice: Voice, wishes: Wishes, devices: Sequence[str] | None
) -> Study:
    """End what an earlier tuner left of a study, and build what it needs."""
    space = stored_space(ledger, row)
    ledger.redact = Redactor(given_secrets(space))
    kinds = launchers()
    for ended in end_leftovers(ledger, kinds, row.id):
        voice.say("note", text=f"ended a leftover: {ended}")
    for trial in ledger.trials(row.id, unfinished=True):
        folder = attempt_folder(study_folder(ledger, row.name), trial.number, trial.attempt)
        scrub(folder, ledger.redact)
    return _prepare(ledger, row, space, voice, kinds, wishes, devices)


def _with_devices(
    study: Study, devices: Sequence[str] | None, job: Callable[[Study], T]
) -> T | None:
    """Do something with a study while its devices are held; what looks at them is closed then."""
    with closing(study.devices):
        names = devices or needed(
            study.space, study.hardware.devices, on_devices=uses_devices(study.space)
        )
        holder = {"study": study.row.name, "state": str(study.ledger.folder)}
        with hold_devices(names, holder, study.voice, study.wishes) as held:
            return job(study) if held else None


class _ToldToStop(Exception):
    """Raised through a build when the study is to end."""


def given_secrets(space: SearchSpace) -> dict[str, str]:
    """The secrets that a space's engines are given, by the variables that they are taken from.

    Raises:
        UserError: When one is not set, or is so short that it could not be kept out of logs.
    """
    found = {}
    for name in secret_names(space):
        value = os.environ.get(name)
        if value is None:
            raise UserError(
                f"the engine is to be given ${name}, which is not set",
                mend=f"export {name} and go on with `tuner resume {space.study}`",
            )
        if len(value) < SHORTEST:
            raise UserError(
                f"${name} has fewer than {SHORTEST} characters, too few to be kept out of logs",
                mend="use a longer secret",
            )
        found[name] = value
    return found


def _prepare(
    ledger: Ledger,
    row: StudyRow,
    space: SearchSpace,
    voice: Voice,
    kinds: dict[str, Launcher],
    wishes: Wishes,
    only: Sequence[str] | None,
) -> Study:
    check_targets(space)
    check_models(space)
    launch = space.engine.launch
    engines = {choice.name: _build(choice, launch, voice, wishes) for choice in space.engines}
    devices = detect().source
    with ExitStack() as opened:
        opened.callback(devices.close)
        hardware = detect_hardware(devices)
        if only is not None:
            chosen = tuple(d for d in hardware.devices if d.key in only)
            hardware = replace(hardware, devices=chosen)
        any_engine = next(iter(engines.values()))
        models = {model.name: served_model(space, model, any_engine) for model in space.models}
        ledger.add_facts(
            row.id,
            {
                "tuner": __version__,
                "hardware": hardware.as_json(),
                "engines": {name: e.as_json() for name, e in engines.items()},
                "models": {name: str(path) for name, path in models.items()},
            },
        )
        study = Study(
            ledger=ledger,
            row=row,
            space=space,
            context=context_of(space, hardware),
            folder=study_folder(ledger, row.name),
            engines=engines,
            models=models,
            launcher=kinds[space.engine.launch],
            hardware=hardware,
            devices=devices,
            gates=gates_of(space),
            weights=weights_of(space),
            objective=objective_of(space),
            voice=voice,
            wishes=wishes,
            device_env=device_env(hardware) if only is not None else {},
        )
        opened.pop_all()  # whoever works with the study closes them
    return study


def context_of(space: SearchSpace, hardware: Hardware) -> Context:
    """What expressions of a space may name on this machine, the space's own override included."""
    memory = [d.memory_total for d in hardware.devices if d.memory_total is not None]
    found = spec.Hardware(
        devices=len(hardware.devices),
        cores=hardware.cores,
        memory_bytes=hardware.memory_total,
        device_memory_bytes=min(memory, default=0),
    )
    loads = tuple((load.name, load.workload) for load in space.loads)
    return Context(found.overridden(space.hardware), loads)


def served_model(space: SearchSpace, model: ModelChoice, engine: Engine) -> Path:
    """The folder of a model: the one on disk, or one that is made on the spot."""
    if model.make is not None:
        return make_model(engine, model.make, seed=model.seed)
    return model_folder(space, model)


def _build(
    choice: EngineChoice, launch: Literal["process", "docker"], voice: Voice, wishes: Wishes
) -> Engine:
    def hear(progress: Progress) -> None:
        if wishes.ending:
            raise _ToldToStop
        voice.say(
            "build",
            recipe=choice.name,
            step=progress.step,
            place=progress.number,
            of=progress.total,
            line=progress.line,
        )

    return build_engine(choice.recipe, progress=hear, launch=launch, image=choice.image)


@contextmanager
def stop_on_signals(cancelled: threading.Event) -> Iterator[None]:
    """Turn Ctrl-C and TERM into the wish to stop; a second Ctrl-C interrupts for good."""

    def wish(number: int, frame: FrameType | None) -> None:
        if cancelled.is_set() and number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        cancelled.set()

    before = {n: signal.signal(n, wish) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
