"""From a decided study to the files that people deploy and read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tuner.errors import UserError
from tuner.export import computility
from tuner.export.formats import Form, files, platform_files
from tuner.files import write_atomic
from tuner.spec import SearchSpace
from tuner.spec.deployment import Deployment
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin, StudyRow, TrialRow
from tuner.store.stages import Stage
from tuner.trial.command import server_command
from tuner.trial.entry import stored_space, study_folder
from tuner.trial.environment import environment
from tuner.trial.served import engine_of, served
from tuner.trial.starting import model_path
from tuner.trial.summary import command_of

REPORT = "report.md"
REPORT_PAGE = "report.html"


def deliver(ledger: Ledger, row: StudyRow, number: int, *, folder: Path | None = None) -> Path:
    """Write the ``computility-run.yaml`` of a trial, and beside it where it comes from.

    Args:
        ledger: The ledger.
        row: The study.
        number: The trial to export.
        folder: Where to; the search space's own folder by default.

    Returns:
        The file.
    """
    where = folder or export_folder(stored_space(ledger, row), row)
    return write_files(where, export_files(ledger, row, number))


def write_files(folder: Path, texts: Mapping[str, str]) -> Path:
    """Write the texts of an export or a report.

    Args:
        folder: Where to; it is made when it is not there.
        texts: Texts by name; the first one is what people look for.

    Returns:
        The first file.

    Raises:
        UserError: When the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_atomic(folder / name, text, mode=0o755 if name.endswith(".sh") else 0o644)
    except OSError as error:
        raise UserError(
            f"the files cannot be written: {error.strerror}",
            file=folder,
            mend="name a folder with --out",
        ) from error
    return folder / next(iter(texts))


def export_files(
    ledger: Ledger,
    row: StudyRow,
    number: int,
    form: Form = "computility-run",
    *,
    image: str | None = None,
) -> dict[str, str]:
    """The texts of a trial's export, by file name: what is deployed, and where it comes from.

    Args:
        ledger: The ledger.
        row: The study.
        number: The trial.
        form: The form of the file.
        image: The image's name where it is deployed, for the forms that start containers.

    Raises:
        UserError: When there is nothing to export, the trial does not count any more, or the form
            cannot say it.
    """
    trial, space = ledger.trial(row.id, number), stored_space(ledger, row)
    if trial.origin is Origin.PROFILE:
        raise UserError(
            f"trial {number} only timed the steps of trial {trial.repeats}",
            mend=f"export trial {trial.repeats}",
        )
    if trial.history is not None:
        # Its engine or model may be unknown by now, and where it comes from would be said wrongly.
        raise UserError(
            f"trial {number} is history: {trial.history}",
            mend=f"export a trial that counts; `tuner show {row.name} {number}` has its command",
        )
    engine_of(row, Deployment.from_json(trial.deployment))
    origin = provenance(ledger, row, trial)
    if form == "computility-run":
        return platform_files(run_file(row, space, trial), origin)
    took = _started_in(ledger, row.id, number)
    return files(form, served(row, space, trial, image=image, started_in=took), origin)


def _started_in(ledger: Ledger, study: int, number: int) -> float | None:
    """Seconds until the engine of a trial's last attempt answered; None where it never did."""
    ready = [s for s in ledger.transitions(study, number) if s.stage is Stage.READY]
    return ready[-1].detail.get("seconds") if ready else None


def export_folder(space: SearchSpace, row: StudyRow) -> Path:
    """The folder that the search space names; a relative one lies beside the checkout or here."""
    asked = Path(space.export.dir)
    if asked.is_absolute():
        return asked
    origin = Path(row.origin).parent
    base = origin.parent if origin.name == "search_spaces" else Path.cwd()
    return base / asked


def run_file(row: StudyRow, space: SearchSpace, trial: TrialRow) -> computility.RunFile:
    """What a trial's deployment looks like in the platform's format."""
    deployment = Deployment.from_json(trial.deployment)
    engine = engine_of(row, deployment)
    export = space.export
    server = engine.server
    if export.python is not None:
        server = (export.python, *server[1:])
    model = export.model_path or model_path(engine, Path(row.facts["models"][deployment.model]))
    env = {
        **environment(dict(engine.env), deployment),
        **{name: str(value) for name, value in export.env.items()},
    }
    return computility.run_file(
        server_command(server, model, deployment),
        env,
        concurrency=export.concurrency,
        drop=tuple(export.drop_env),
    )


def decided(ledger: Ledger, row: StudyRow) -> dict[str, Any] | None:
    """The study's decision, as it was told last; None while there is none.

    What was decided under another search space counts no more.
    """
    said = ledger.events(row.id, kinds=["decision", "migrated"])
    return said[-1].data if said and said[-1].kind == "decision" else None


def provenance(ledger: Ledger, row: StudyRow, trial: TrialRow) -> dict[str, Any]:
    """Where an exported file comes from: enough to find and to repeat it."""
    return {
        "study": row.name,
        "trial": trial.number,
        "search_space": row.origin,
        "search_space_fingerprint": row.fingerprint,
        "params": trial.params,
        "verdict": trial.verdict,
        "score": trial.score,
        "decision": decided(ledger, row),
        "engine": _engine(row, Deployment.from_json(trial.deployment)),
        "secrets": trial.deployment.get("secrets", {}),
        "tuner": row.facts["tuner"],
    }


def _engine(row: StudyRow, deployment: Deployment) -> dict[str, Any]:
    """The engine that a deployment needs: what it was built from, and what it is."""
    engine = engine_of(row, deployment)
    return {
        "recipe": engine.recipe,
        "digest": engine.digest,
        "vllm": engine.fingerprint.vllm,
        "torch": engine.fingerprint.torch,
        "python": engine.fingerprint.python,
        "image": None if engine.image is None else {"chosen": deployment.image, "is": engine.image},
    }


def write_report(ledger: Ledger, row: StudyRow, *, folder: Path | None = None) -> Path:
    """Write the study's report; into the study's own folder by default."""
    where = folder or study_folder(ledger, row.name)
    return write_files(where, report_files(ledger, row))


def report_files(ledger: Ledger, row: StudyRow) -> dict[str, str]:
    """The texts of a study's report, by file name: Markdown, HTML, and the pictures of the former."""
    # Optuna and scipy come with these, and a daemon that writes no report has no need of them.
    from tuner.report.html import html  # noqa: PLC0415
    from tuner.report.markdown import markdown  # noqa: PLC0415
    from tuner.report.story import pictures, story  # noqa: PLC0415
    from tuner.trial.telling import material  # noqa: PLC0415

    found = material(ledger, row)
    chosen = found.best if found.decision is None else found.trial(found.decision["winner"])
    blocks = story(found, None if chosen is None else command_of(row, chosen))
    made = datetime.fromtimestamp(found.made, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {
        REPORT: markdown(blocks),
        REPORT_PAGE: html(
            blocks, title=f"Study {row.name}", made=f"Made by tuner {found.tuner}, {made}."
        ),
        **pictures(blocks),
    }
