"""Errors as the API tells them: one JSON problem, one clear sentence, nothing of our insides."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tuner.daemon.models import Problem
from tuner.errors import (
    LedgerClosed,
    LedgerCorrupt,
    StateUnusable,
    StudyConflict,
    StudyNotFound,
    TunerError,
    UserError,
    on_purpose,
)

_log = logging.getLogger(__name__)

_STATUS: tuple[tuple[type[TunerError], int], ...] = (
    (StudyNotFound, 404),
    (StudyConflict, 409),
    (StateUnusable, 409),
    (UserError, 422),
    (LedgerCorrupt, 503),
    (LedgerClosed, 503),
    (TunerError, 500),
)
_MEDIA = "application/problem+json"

RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": meaning,
        "content": {_MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status, meaning in {
        400: "The request cannot be read.",
        401: "Over TCP, without the token.",
        403: "From another origin, or to another host.",
        404: "There is no such thing.",
        405: "Not this way.",
        409: "Not in this state.",
        413: "It is too large.",
        422: "It does not make sense.",
        503: "The daemon cannot do this now.",
    }.items()
}
"""What every route may answer besides what it is for."""


class Refused(Exception):
    """Raised to answer with a problem.

    Args:
        status: The HTTP status.
        detail: What is wrong and how to mend it, in one sentence.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def problem(
    status: int,
    detail: str,
    *,
    errors: Sequence[str] = (),
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """The answer that says a problem."""
    body = Problem(
        title=HTTPStatus(status).phrase, status=status, detail=detail, errors=list(errors)
    )
    return JSONResponse(
        body.model_dump(), status_code=status, media_type=_MEDIA, headers=headers or {}
    )


def install(app: FastAPI) -> None:
    """Make an application tell every error as a problem."""
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(TunerError, _tuner)
    app.add_exception_handler(ExceptionGroup, _grouped)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _defect)


def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)  # noqa: S101 - it is installed for that
    return problem(error.status, error.detail)


def _tuner(request: Request, error: Exception) -> JSONResponse:
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    if status == 500:
        _log.error("%s %s: %s", request.method, request.url.path, error)
    detail, *more = str(error).splitlines() or [""]
    return problem(status, detail, errors=[line.strip() for line in more if line.strip()])


def _grouped(request: Request, error: Exception) -> JSONResponse:
    """What was raised on purpose inside a task group is told as itself; a defect stays one."""
    found = on_purpose(error)
    if not found:
        raise error
    return _tuner(request, found[0])


def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - it is installed for that
    lines = [_complaint(one) for one in error.errors()]
    return problem(422, lines[0] if lines else "the request does not make sense", errors=lines[1:])


def _complaint(one: dict[str, Any]) -> str:
    """One mistake in words; what was sent is not repeated, since it may be a secret."""
    where = ".".join(str(part) for part in one["loc"] if part not in {"body", "query", "path"})
    return f"{where}: {one['msg']}" if where else str(one["msg"])


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - it is installed for that
    words = {404: "there is nothing here", 405: f"{request.method} is not for this"}
    detail = words.get(error.status_code, str(error.detail))
    return problem(error.status_code, detail, headers=dict(error.headers or {}))


def _defect(_: Request, __: Exception) -> JSONResponse:
    # The server writes the traceback into the daemon's log.
    return problem(500, "this is a defect of tuner; the daemon's log says more")
