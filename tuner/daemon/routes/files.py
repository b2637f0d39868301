"""What studies leave: logs, telemetry, artifacts, exports, reports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi import Path as InPath
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from tuner.daemon.files import listed, open_inside, open_text, pieces, private, whole_lines
from tuner.daemon.models import Artifact, Exported
from tuner.daemon.problems import RESPONSES, Refused
from tuner.daemon.routes.studies import StudyName
from tuner.daemon.routes.trials import Number
from tuner.daemon.service import Here, Service
from tuner.export.formats import Form
from tuner.launch.base import LOG_NAME
from tuner.store.rows import StudyRow, TrialRow
from tuner.store.stages import is_running
from tuner.trial.deliver import decided, export_files, report_files
from tuner.trial.deployable import doubt_of
from tuner.trial.entry import attempt_folder, study_folder

router = APIRouter(prefix="/v1/studies/{study}", tags=["files"], responses=RESPONSES)

_FOLLOW = 0.3
_IMAGE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$"
_PART = 1 << 20
_REPORT = {
    ".html": "text/html; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
}
_REPORT_NAME = r"^[a-z0-9][a-z0-9_-]{0,80}\.(html|md|svg)$"
_STILL = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"
"""What a report may do: be looked at."""
_Attempt = Annotated[
    int | None, Query(ge=1, lt=2**31, description="An earlier attempt; the last one without it.")
]
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The text. `X-Next-Offset` is where it goes on, `X-At-End` whether it ended.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


@router.get("/trials/{trial}/log", response_class=PlainTextResponse, responses=_TEXT)
def trial_log(
    here: Here,
    study: StudyName,
    trial: Number,
    attempt: _Attempt = None,
    offset: Annotated[int, Query(ge=0, lt=2**53, description="Bytes to skip.")] = 0,
    limit: Annotated[int, Query(ge=1, le=16 * _PART, description="Most bytes.")] = _PART,
    *,
    follow: Annotated[
        bool, Query(description="Send all, and go on as the log grows, until the trial is over.")
    ] = False,
) -> Response:
    """The engine's log of a trial, in whole lines and without secrets."""
    root, parts = _log(here, study, trial, attempt)
    with here.books.read() as ledger:
        row = ledger.study(study)
        _refuse_raw(here, row, ledger.trial(row.id, trial))
    open_text(root, parts).close()
    if follow:
        lines = _followed(here, study, trial, root, parts, offset)
        return StreamingResponse(lines, media_type="text/plain; charset=utf-8")
    with open_text(root, parts) as file:
        text, after, at_end = whole_lines(file, offset, limit, here.books.redact)
    headers = {"X-Next-Offset": str(after), "X-At-End": str(at_end).lower()}
    return Response(text, media_type="text/plain; charset=utf-8", headers=headers)


@router.get("/log", response_class=PlainTextResponse, responses=_TEXT)
def worker_log(here: Here, study: StudyName) -> Response:
    """What the study's worker printed: nothing, unless something went wrong."""
    with here.books.read() as ledger:
        root = study_folder(ledger, ledger.study(study).name)
    try:
        file = open_text(root, ["worker.log"])
    except Refused:
        return Response("", media_type="text/plain; charset=utf-8")
    with file:
        text, after, at_end = whole_lines(file, 0, 16 * _PART, here.books.redact)
    headers = {"X-Next-Offset": str(after), "X-At-End": str(at_end).lower()}
    return Response(text, media_type="text/plain; charset=utf-8", headers=headers)


@router.get("/trials/{trial}/telemetry")
def telemetry(
    here: Here,
    study: StudyName,
    trial: Number,
    attempt: _Attempt = None,
    points: Annotated[int, Query(ge=2, le=10_000, description="The most samples.")] = 600,
) -> list[dict[str, Any]]:
    """Samples of host and devices while a trial ran, evenly thinned to so many."""
    root, parts = _log(here, study, trial, attempt)
    with open_text(root, [*parts[:-1], "telemetry.jsonl"]) as file:
        # The last line of a growing file may be cut, and the very last one is no sample.
        samples = [line for line in file if line.endswith(b"\n") and b'"at"' in line]
    step = max(1, -(-len(samples) // points))
    found = [json.loads(line) for line in samples[::step]]
    redacted: list[dict[str, Any]] = here.books.redact.data(found)
    return redacted


@router.get("/artifacts")
def artifacts(here: Here, study: StudyName) -> list[Artifact]:
    """The files of a study."""
    with here.books.read() as ledger:
        root = study_folder(ledger, ledger.study(study).name)
    return [
        Artifact(path=path, bytes=found.st_size, modified=found.st_mtime)
        for path, found in listed(root)
    ]


@router.get(
    "/artifacts/{path:path}",
    response_class=StreamingResponse,
    responses={
        200: {"description": "The file.", "content": {"application/octet-stream": {"schema": {}}}}
    },
)
def artifact(
    here: Here,
    study: StudyName,
    path: Annotated[str, InPath(description="Relative to the study's folder.")],
) -> StreamingResponse:
    """One file of a study, without secrets."""
    parts = path.split("/")
    with here.books.read() as ledger:
        row = ledger.study(study)
        root = study_folder(ledger, row.name)
        raw = [t for t in ledger.trials(row.id, unfinished=True) if is_running(t.stage)]
    if private(parts[-1]):
        raise Refused(404, "there is no such file")
    for trial in raw:
        folder = attempt_folder(root, trial.number, 1).parent
        if (root / path).is_relative_to(folder):
            _refuse_raw(here, row, trial)
    file = open_inside(root, parts)
    text = parts[-1].endswith((".log", ".jsonl", ".json", ".yaml", ".md", ".txt"))
    return StreamingResponse(
        pieces(file, here.books.redact),
        media_type="text/plain; charset=utf-8" if text else "application/octet-stream",
        headers={"Content-Disposition": "inline" if text else "attachment"},
    )


@router.get("/export")
def export(
    here: Here,
    study: StudyName,
    trial: Annotated[
        int | None, Query(ge=0, lt=2**31, description="The one that was decided for without it.")
    ] = None,
    form: Annotated[
        Form, Query(alias="format", description="The form that the deployment is written in.")
    ] = "computility-run",
    image: Annotated[
        str | None,
        Query(
            pattern=_IMAGE_NAME,
            max_length=255,
            description="The image's name where it is deployed, for forms that start containers.",
        ),
    ] = None,
    *,
    force: Annotated[
        bool, Query(description="Also a trial whose engine never served as it should.")
    ] = False,
) -> Exported:
    """The files of a trial's deployment; the same bytes for the same trial.

    A trial whose engine never served as it should is refused without ``force``.
    """
    with here.books.read() as ledger:
        row = ledger.study(study)
        decision = decided(ledger, row)
        if trial is None and decision is None:
            raise Refused(409, f"study {study} has not decided on a trial yet: name one")
        number = trial if trial is not None else int((decision or {})["winner"])
        doubt = doubt_of(ledger.trial(row.id, number))
        if doubt is not None and doubt.grave and not force:
            raise Refused(409, f"{doubt.said}; with force (--force) it is written all the same")
        files = export_files(ledger, row, number, form, image=image)
    return Exported(
        study=study,
        trial=number,
        files=here.books.redact.data(files),
        doubt=None if doubt is None else here.books.redact.data(doubt.said),
    )


@router.get("/report")
def report(here: Here, study: StudyName) -> dict[str, str]:
    """The texts of a study's report, by file name."""
    with here.books.read() as ledger:
        found: dict[str, str] = here.books.redact.data(report_files(ledger, ledger.study(study)))
    return found


@router.get(
    "/report/{name}",
    response_class=Response,
    responses={
        200: {
            "description": "The file.",
            "content": {kind: {"schema": {"type": "string"}} for kind in _REPORT.values()},
        }
    },
)
def report_file(
    here: Here,
    study: StudyName,
    name: Annotated[
        str, InPath(pattern=_REPORT_NAME, description="One of the names of the report.")
    ],
) -> Response:
    """One file of a study's report, as a browser shows it: it may run nothing and ask nobody."""
    found = report(here, study)
    if name not in found:
        raise Refused(404, f"the report has no {name}")
    return Response(
        found[name],
        media_type=_REPORT[Path(name).suffix],
        headers={"Content-Security-Policy": _STILL},
    )


def _log(here: Service, study: str, number: int, attempt: int | None) -> tuple[Path, list[str]]:
    """A trial's log: the study's folder, and the names below it."""
    with here.books.read() as ledger:
        row = ledger.study(study)
        trial = ledger.trial(row.id, number)
        root = study_folder(ledger, row.name)
    wanted = attempt or trial.attempt
    if wanted < 1 or wanted > trial.attempt:
        raise Refused(404, f"trial {number} of {study} has no such start, and no log of it")
    folder = attempt_folder(root, number, wanted)
    return root, [*folder.relative_to(root).parts, LOG_NAME]


def _refuse_raw(here: Service, row: StudyRow, trial: TrialRow) -> None:
    """Refuse files of a trial that runs and may hold a secret that is not known here: they are cleaned at its end."""
    if is_running(trial.stage) and (names := here.books.unknown(row)):
        variables = ", ".join(f"${name}" for name in names)
        raise Refused(
            409,
            f"what trial {trial.number} writes may hold {variables}, which is not known here, so it is not shown"
            f" before the trial is over; tuner resume {row.name}, with it set, tells it",
        )


async def _followed(
    here: Service, study: str, number: int, root: Path, parts: list[str], offset: int
) -> AsyncIterator[bytes]:
    while True:
        # Looked at first: what is written between the two looks is then read once more.
        over = await asyncio.to_thread(_over, here, study, number)
        with await asyncio.to_thread(open_text, root, parts) as file:
            text, offset, at_end = await asyncio.to_thread(
                whole_lines, file, offset, _PART, here.books.redact
            )
        if text:
            yield text
        elif over and at_end:
            return
        else:
            await asyncio.sleep(_FOLLOW)


def _over(here: Service, study: str, number: int) -> bool:
    with here.books.read() as ledger:
        trial: TrialRow = ledger.trial(ledger.study(study).id, number)
    stopping = here.supervisor is not None and here.supervisor.stopping
    return stopping or not is_running(trial.stage)
