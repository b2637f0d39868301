"""Studies: listed, submitted, shown, stopped, paused, resumed, changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter
from fastapi import Path as InPath
from fastapi.responses import PlainTextResponse

from tuner.daemon.models import (
    STUDY,
    Change,
    Going,
    Space,
    StudyDetail,
    StudySummary,
    Submission,
    Told,
)
from tuner.daemon.problems import RESPONSES, Refused
from tuner.daemon.service import Here, Service
from tuner.daemon.view import Views
from tuner.paths import data_dir
from tuner.spec import SearchSpace
from tuner.spec.load import parse_space
from tuner.store.redact import SHORTEST
from tuner.trial.admission import check_targets
from tuner.trial.entry import SPACE_COPY, enter_study, secret_names, study_folder
from tuner.trial.leases import check_devices
from tuner.trial.wishes import Wishes

router = APIRouter(prefix="/v1", tags=["studies"], responses=RESPONSES)

_PASTED = Path(SPACE_COPY)
"""What messages call a search space that came without a file."""

StudyName = Annotated[str, InPath(pattern=STUDY, description="The study's name.")]


@router.get("/studies")
def list_studies(here: Here) -> list[StudySummary]:
    """All studies, the oldest first."""
    with here.books.read() as ledger:
        return Views(ledger, here.supervisor).summaries()


@router.post("/studies", status_code=201)
def submit(here: Here, given: Submission) -> StudySummary:
    """Take a search space into the queue: as a new study, or to go on with the one of its name.

    A study of that name whose search space asks something else is a conflict. The limits are those of
    the search space and those that are given now; a running study takes them at once.
    """
    supervisor = here.working()
    space, origin = _read(here, given)
    check_targets(space)
    devices = check_devices(given.devices, here.machine.devices)
    secrets = {name: value.get_secret_value() for name, value in given.secrets.items()}
    _check_secrets(secrets, secret_names(space))
    with here.books.write() as (ledger, queue):
        row = enter_study(ledger, space, origin, status="queued", migrate=given.migrate)
        here.books.give(row.id, secrets)
        queue.put(
            row.id,
            stood=given.stood or str(here.state),
            priority=given.priority,
            budget=given.budget.given(),
            devices=devices,
        )
    supervisor.limit(row, Wishes(budget=dict(given.budget.given())).limits(space.budget))
    supervisor.resume(row)
    return _summary(here, row.name)


@router.get("/studies/{study}")
def show_study(here: Here, study: StudyName) -> StudyDetail:
    """A study with all that a page about it begins with; its events go on from there."""
    with here.books.read() as ledger:
        return Views(ledger, here.supervisor).detail(ledger.study(study))


@router.patch("/studies/{study}")
def change_study(here: Here, study: StudyName, given: Change) -> StudySummary:
    """Give a study another priority, another place or other limits; a running one takes them at once."""
    supervisor = here.working()
    with here.books.write() as (ledger, queue):
        row = ledger.study(study)
        queue.entry(row.id)
        if given.priority is not None:
            queue.prioritize(row.id, given.priority)
        if given.before is not None:
            other = ledger.study(given.before)
            if other.id == row.id:
                raise Refused(422, "a study cannot go before itself")
            queue.put_before(row.id, other.id)
        if budget := given.budget.given():
            supervisor.allow(row, budget)
    supervisor.wake()
    return _summary(here, study)


@router.post("/studies/{study}/stop")
def stop_study(here: Here, study: StudyName) -> Told:
    """End the trial in hand in good order, and then the work; it is run again when the study goes on."""
    supervisor = here.working()
    with here.books.write() as (ledger, queue):
        row = ledger.study(study)
        if row.status == "finished":
            return Told(said=f"study {study} is finished already")
        queue.entry(row.id)
    supervisor.stop(row)
    return Told(said=f"study {study} ends its trial and stops")


@router.post("/studies/{study}/pause")
def pause_study(here: Here, study: StudyName) -> Told:
    """End the work when the trial in hand is over."""
    supervisor = here.working()
    with here.books.write() as (ledger, queue):
        row = ledger.study(study)
        if row.status == "finished":
            return Told(said=f"study {study} is finished already")
        queue.entry(row.id)
    supervisor.pause(row)
    return Told(said=f"study {study} finishes its trial and pauses")


@router.post("/studies/{study}/resume")
def resume_study(here: Here, study: StudyName, given: Going) -> StudySummary:
    """Go on with a study that was stopped, paused, interrupted, or is to get more budget."""
    supervisor = here.working()
    secrets = {name: value.get_secret_value() for name, value in given.secrets.items()}
    _check_secrets(secrets, None)
    with here.books.write() as (ledger, queue):
        row = ledger.study(study)
        entry = queue.find(row.id)
        here.books.give(row.id, secrets)
        queue.put(
            row.id,
            stood=entry.stood if entry else str(Path(row.origin).parent),
            devices=entry.devices if entry else None,
        )
        if given.budget.given():
            supervisor.allow(row, given.budget.given())
    supervisor.resume(row)
    return _summary(here, study)


@router.get("/studies/{study}/space", response_class=PlainTextResponse)
def show_space(here: Here, study: StudyName) -> str:
    """The search space of a study, as it was given last."""
    with here.books.read() as ledger:
        row = ledger.study(study)
        return (study_folder(ledger, row.name) / SPACE_COPY).read_text(encoding="utf-8")


@router.get("/spaces")
def list_spaces() -> list[Space]:
    """The search spaces that come with tuner, to begin with."""
    files = sorted((data_dir() / "search_spaces").glob("*.yaml"))
    return [Space(name=file.stem, text=file.read_text(encoding="utf-8")) for file in files]


def _read(here: Service, given: Submission) -> tuple[SearchSpace, Path]:
    """A submitted search space, and the file that it counts as being from."""
    if given.origin is not None:
        file = Path(given.origin)
        return parse_space(given.space, file, relative_to=file.parent), file
    # Without a file it is from the copy that its study is about to have; the name of the study
    # stands in the text, so it is read twice.
    name = parse_space(given.space, _PASTED, relative_to=here.state).study
    file = here.state / "studies" / name / SPACE_COPY
    return parse_space(given.space, _PASTED, relative_to=file.parent), file


def _check_secrets(secrets: dict[str, str], wanted: tuple[str, ...] | None) -> None:
    for name, value in secrets.items():
        if wanted is not None and name not in wanted:
            raise Refused(422, f"the search space takes no secret from ${name}")
        if len(value) < SHORTEST:
            raise Refused(
                422, f"${name} has fewer than {SHORTEST} characters, too few to be kept out of logs"
            )


def _summary(here: Service, study: str) -> StudySummary:
    with here.books.read() as ledger:
        return Views(ledger, here.supervisor).summary(ledger.study(study))
