"""How a study enters the ledger, and where in the state folder its things lie."""

from __future__ import annotations

from pathlib import Path

from tuner.errors import SpaceError, StudyConflict
from tuner.files import write_atomic
from tuner.spec import Context, SearchSpace, difference, load_space, parse_space
from tuner.spec.values import SecretValue
from tuner.store.ledger import Ledger
from tuner.store.locks import hold_study
from tuner.store.rows import StudyRow
from tuner.telemetry.detect import detect
from tuner.telemetry.hardware import detect_hardware
from tuner.trial.migrate import plan_migration

SPACE_COPY = "search_space.yaml"


def enter_study(
    ledger: Ledger,
    space: SearchSpace,
    origin: Path,
    *,
    status: str = "running",
    migrate: bool = False,
) -> StudyRow:
    """The study of a search space: a new one, or the one of that name if it asks the same.

    Args:
        ledger: The ledger, open for writing.
        space: The search space.
        origin: The file that it comes from.
        status: The status of a new study.
        migrate: Whether a study of that name that asks something else goes on with this space.

    Raises:
        StudyConflict: When a study of that name asks something else; the message shows what.
        StateUnusable: When it is to be migrated and some process works on it.
    """
    known = {s.name: s for s in ledger.studies()}
    if space.study in known:
        return _same(ledger, known[space.study], space, origin, migrate=migrate)
    folder = study_folder(ledger, space.study)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(folder / SPACE_COPY, space.text)
    return ledger.create_study(
        name=space.study,
        fingerprint=space.fingerprint,
        space=space.text,
        origin=str(origin.resolve()),
        status=status,
    )


def _same(
    ledger: Ledger, row: StudyRow, space: SearchSpace, origin: Path, *, migrate: bool
) -> StudyRow:
    if row.fingerprint == space.fingerprint:
        # Budget and export are no part of the question; the newest ones count.
        write_atomic(study_folder(ledger, row.name) / SPACE_COPY, space.text)
        return row
    old = stored_space(ledger, row)
    if migrate:
        return _migrate(ledger, row, old, space, origin)
    changes = "\n".join(f"  {line}" for line in difference(old, space))
    raise StudyConflict(
        f"the study {row.name!r} exists with another search space:\n{changes}\n",
        file=origin,
        mend="give the changed one another name under `study:`, or go on with --migrate: trials "
        "whose points still fit count on, the others are kept as history",
    )


def _migrate(
    ledger: Ledger, row: StudyRow, old: SearchSpace, space: SearchSpace, origin: Path
) -> StudyRow:
    """Go on with another search space, while nobody works on the study."""
    devices = detect().source
    try:
        machine = detect_hardware(devices)
    finally:
        devices.close()
    folder = study_folder(ledger, row.name)
    with hold_study(folder):
        found = plan_migration(old, space, ledger.trials(row.id), Context.of(space, machine))
        after = ledger.change_space(
            row,
            fingerprint=space.fingerprint,
            space=space.text,
            origin=str(origin.resolve()),
            carried=found.carried,
            history=found.history,
            said={**found.as_json(), "changes": list(difference(old, space))},
        )
        write_atomic(folder / SPACE_COPY, space.text)
        ledger.note(row.id, "note", {"text": found.words})
    return after


def study_folder(ledger: Ledger, name: str) -> Path:
    """The folder of a study in the state folder."""
    return ledger.folder / "studies" / name


def attempt_folder(study: Path, number: int, attempt: int) -> Path:
    """The folder of one attempt of a trial.

    Args:
        study: The study's folder.
        number: The trial.
        attempt: The attempt, from 1.
    """
    return study / "trials" / f"{number:04d}" / f"attempt-{attempt}"


def stored_space(ledger: Ledger, row: StudyRow) -> SearchSpace:
    """The search space of a study: the newest text of it that means what the ledger says it means.

    The copy in the study's folder is newer where only the budget or the export changed. It is older,
    or missing, where a tuner was killed right after the ledger took another space.
    """
    path, folder = study_folder(ledger, row.name) / SPACE_COPY, Path(row.origin).parent
    try:
        copy = load_space(path, relative_to=folder)
    except SpaceError:
        return parse_space(row.space, path, relative_to=folder)
    if copy.fingerprint == row.fingerprint:
        return copy
    kept = parse_space(row.space, path, relative_to=folder)
    # Files that it uses as values may have changed since; then neither is what it was.
    return kept if kept.fingerprint == row.fingerprint else copy


def secret_names(space: SearchSpace) -> tuple[str, ...]:
    """Variables of the tuner's own environment whose values the space's engines are given."""
    bundles = [b for p in space.parameters.values() for b in (p.bundle or {}).values()]
    places = [space.engine.env, *(bundle.env for bundle in bundles)]
    values = [value for env in places for value in env.values()]
    return tuple(sorted({value.from_env for value in values if isinstance(value, SecretValue)}))
