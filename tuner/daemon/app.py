"""The application: routes, errors, the guard before them, and the page's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from tuner import __version__
from tuner.daemon import problems
from tuner.daemon.guard import Guard
from tuner.daemon.models import Problem
from tuner.daemon.routes import events, files, insight, machine, studies, trials
from tuner.daemon.service import Service

PAGE = Path(__file__).parent / "page"
"""The web page's files, served as they are; there is none where the folder is not there."""

_ABOUT = "What the command line and the page use, and nothing else. Times are seconds since 1970."


class _Page(StaticFiles):
    """The page's files; a browser asks each time whether they are still the same."""

    def file_response(self, *given: Any, **named: Any) -> Response:
        """The answer that holds a file."""
        answer = super().file_response(*given, **named)
        answer.headers["Cache-Control"] = "no-cache"
        return answer


def make_app(service: Service, *, token: str = "") -> FastAPI:
    """The application of a daemon.

    Args:
        service: What its routes work with.
        token: The token for TCP; without one nobody gets in that way.
    """
    app = FastAPI(
        title="tuner", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None
    )
    app.state.service = service
    for module in (studies, trials, insight, files, events, machine):
        app.include_router(module.router)
    problems.install(app)
    _describe_problem(app)
    if PAGE.is_dir():
        app.mount("/", _Page(directory=PAGE, html=True), name="page")
    app.add_middleware(Guard, token=token)
    return app


def _describe_problem(app: FastAPI) -> None:
    """Have the problem's model in the description, where every route points to it."""
    make = app.openapi

    def openapi() -> dict[str, object]:
        found = make()
        found["components"]["schemas"].setdefault("Problem", Problem.model_json_schema())
        return found

    app.openapi = openapi  # type: ignore[method-assign]  # how FastAPI documents it
