"""Opening a study: from a search space, or from the ledger, to a study that can be worked on."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Literal

from tuner import __version__, spec
from tuner.build import Engine, Progress, build_engine, make_model
from tuner.errors import NothingFeasible, StudyConflict, TunerError, UserError
from tuner.files import write_atomic
from tuner.launch.base import Launcher
from tuner.launch.process import ProcessLauncher
from tuner.score.gates import Gate
from tuner.score.official import Weights
from tuner.spec import Context, SearchSpace, difference, load_space
from tuner.spec.settings import ModelChoice
from tuner.store.ledger import Ledger
from tuner.store.rows import StudyRow
from tuner.telemetry.detect import detect
from tuner.telemetry.hardware import Hardware, detect_hardware
from tuner.trial.admission import check_targets
from tuner.trial.context import Study
from tuner.trial.decision import Decision
from tuner.trial.events import Voice, Watcher
from tuner.trial.recovery import end_leftovers
from tuner.trial.study import StudyRunner

SPACE_COPY = "search_space.yaml"


def enter_study(ledger: Ledger, space: SearchSpace, origin: Path) -> StudyRow:
    """The study of a search space: a new one, or the one of that name if it asks the same.

    Raises:
        StudyConflict: When a study of that name asks something else; the message shows what.
    """
    known = {s.name: s for s in ledger.studies()}
    if space.study in known:
        return _same(ledger, known[space.study], space, origin)
    folder = study_folder(ledger, space.study)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = origin.read_text(encoding="utf-8")
    write_atomic(folder / SPACE_COPY, text)
    return ledger.create_study(
        name=space.study, fingerprint=space.fingerprint, space=text, origin=str(origin.resolve())
    )


def _same(ledger: Ledger, row: StudyRow, space: SearchSpace, origin: Path) -> StudyRow:
    if row.fingerprint == space.fingerprint:
        # Budget and export are no part of the question; the newest ones count.
        write_atomic(
            study_folder(ledger, row.name) / SPACE_COPY, origin.read_text(encoding="utf-8")
        )
        return row
    old = load_space(
        study_folder(ledger, row.name) / SPACE_COPY, relative_to=Path(row.origin).parent
    )
    changes = "\n".join(f"  {line}" for line in difference(old, space))
    raise StudyConflict(
        f"the study {row.name!r} exists with another search space:\n{changes}\n",
        file=origin,
        mend="give the changed one another name under `study:`",
    )


def study_folder(ledger: Ledger, name: str) -> Path:
    """The folder of a study in the state folder."""
    return ledger.folder / "studies" / name


def stored_space(ledger: Ledger, row: StudyRow) -> SearchSpace:
    """The search space of a study, as it was when the study began."""
    return load_space(
        study_folder(ledger, row.name) / SPACE_COPY, relative_to=Path(row.origin).parent
    )


def work(
    ledger: Ledger,
    row: StudyRow,
    *,
    watchers: Sequence[Watcher],
    cancelled: threading.Event,
    trials: int | None = None,
) -> Decision | None:
    """Work on a study until it is decided, or told to stop.

    Builds what must be built, ends what an earlier tuner left, goes on where the ledger stands,
    and keeps the study's status true whatever happens.

    Args:
        ledger: The ledger, open for writing.
        row: The study.
        watchers: Are told what happens.
        cancelled: Set from outside to stop the study in good order.
        trials: Most trials, in place of the search space's own budget.
    """
    voice = Voice(ledger, row.id, *watchers)
    launchers: dict[str, Launcher] = {"process": ProcessLauncher()}
    for ended in end_leftovers(ledger, launchers):
        voice.say("note", text=f"ended a leftover: {ended}")
    ledger.set_status(row.id, "running")
    try:
        study = _prepare(ledger, row, voice, launchers, cancelled)
        decision = StudyRunner(study, trials=trials).run()
    except NothingFeasible as error:
        ledger.set_status(row.id, "finished", str(error))
        raise
    except TunerError as error:
        ledger.set_status(row.id, "failed", str(error))
        raise
    except BaseException as error:
        ledger.set_status(row.id, "stopped", f"{type(error).__name__}: {error}")
        raise
    if decision is None:
        ledger.set_status(row.id, "stopped", "told to stop")
    else:
        ledger.set_status(row.id, "finished")
    return decision


def _prepare(
    ledger: Ledger,
    row: StudyRow,
    voice: Voice,
    launchers: dict[str, Launcher],
    cancelled: threading.Event,
) -> Study:
    space = stored_space(ledger, row)
    check_targets(space)
    engines = {name: _build(name, space.engine.launch, voice) for name in space.recipes}
    devices = detect().source
    hardware = detect_hardware(devices)
    any_engine = next(iter(engines.values()))
    models = {model.name: _model(model, any_engine) for model in space.models}
    ledger.add_facts(
        row.id,
        {
            "tuner": __version__,
            "hardware": hardware.as_json(),
            "engines": {name: e.as_json() for name, e in engines.items()},
            "models": {name: str(path) for name, path in models.items()},
        },
    )
    return Study(
        ledger=ledger,
        row=row,
        space=space,
        context=context_of(space, hardware),
        folder=study_folder(ledger, row.name),
        engines=engines,
        models=models,
        launcher=launchers[space.engine.launch],
        hardware=hardware,
        devices=devices,
        gates=gates_of(space),
        weights=weights_of(space),
        voice=voice,
        cancelled=cancelled,
    )


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


def gates_of(space: SearchSpace) -> tuple[Gate, ...]:
    """The gates that trials of a space are held against."""
    declared = space.score.gates
    limits = {
        "success_rate": (declared.success_rate, True),
        "cache_hit_rate": (declared.cache_hit_rate, True),
        "ttft_p90_s": (declared.ttft_p90_s, False),
        "output_tps_p10": (declared.output_tps_p10, True),
        "weighted": (declared.weighted, True),
    }
    return tuple(
        Gate(name, limit, at_least=least)
        for name, (limit, least) in limits.items()
        if limit != "off"
    )


def weights_of(space: SearchSpace) -> Weights:
    """The weights of a space's score."""
    weights = space.score.weights
    return Weights(weights.output_tps, weights.uncached_input_tps, weights.cached_tps)


def _model(model: ModelChoice, engine: Engine) -> Path:
    """The folder of a model: the one on disk, or one that is made on the spot."""
    if model.make is not None:
        return make_model(engine, model.make, seed=model.seed)
    if model.path is None or not model.path.is_dir():
        raise UserError(
            f"there is no model at {model.path}", mend="give the folder that holds its config.json"
        )
    return model.path


def _build(recipe: str, launch: Literal["process", "docker"], voice: Voice) -> Engine:
    def hear(progress: Progress) -> None:
        voice.say(
            "build",
            recipe=recipe,
            step=progress.step,
            place=progress.number,
            of=progress.total,
            line=progress.line,
        )

    return build_engine(recipe, progress=hear, launch=launch)


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


def disk_free(folder: Path) -> int:
    """Bytes that can be written to the disk of a folder."""
    return shutil.disk_usage(folder).free
