"""How a study enters the ledger, and where in the state folder its things lie."""

from __future__ import annotations

from pathlib import Path

from tuner.errors import StudyConflict
from tuner.files import write_atomic
from tuner.spec import SearchSpace, difference, load_space
from tuner.spec.values import SecretValue
from tuner.store.ledger import Ledger
from tuner.store.rows import StudyRow

SPACE_COPY = "search_space.yaml"


def enter_study(
    ledger: Ledger, space: SearchSpace, origin: Path, *, status: str = "running"
) -> StudyRow:
    """The study of a search space: a new one, or the one of that name if it asks the same.

    Args:
        ledger: The ledger, open for writing.
        space: The search space.
        origin: The file that it comes from.
        status: The status of a new study.

    Raises:
        StudyConflict: When a study of that name asks something else; the message shows what.
    """
    known = {s.name: s for s in ledger.studies()}
    if space.study in known:
        return _same(ledger, known[space.study], space, origin)
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


def _same(ledger: Ledger, row: StudyRow, space: SearchSpace, origin: Path) -> StudyRow:
    if row.fingerprint == space.fingerprint:
        # Budget and export are no part of the question; the newest ones count.
        write_atomic(study_folder(ledger, row.name) / SPACE_COPY, space.text)
        return row
    changes = "\n".join(f"  {line}" for line in difference(stored_space(ledger, row), space))
    raise StudyConflict(
        f"the study {row.name!r} exists with another search space:\n{changes}\n",
        file=origin,
        mend="give the changed one another name under `study:`",
    )


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
    """The search space of a study, as it was when the study began."""
    return load_space(
        study_folder(ledger, row.name) / SPACE_COPY, relative_to=Path(row.origin).parent
    )


def secret_names(space: SearchSpace) -> tuple[str, ...]:
    """Variables of the tuner's own environment whose values the space's engines are given."""
    bundles = [b for p in space.parameters.values() for b in (p.bundle or {}).values()]
    places = [space.engine.env, *(bundle.env for bundle in bundles)]
    values = [value for env in places for value in env.values()]
    return tuple(sorted({value.from_env for value in values if isinstance(value, SecretValue)}))
