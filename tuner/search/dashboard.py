"""A study as Optuna would have it: a copy for Optuna's own page, and for whatever reads its studies.

Nothing is ever read back from such a copy. Parameters stand in it with their values, where the sampler
itself only knows numbers.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from tuner.errors import UserError
from tuner.spec.axes import Assignment, Axis, Layout

_CONSTRAINTS = "constraints"
"""Where optuna-dashboard looks for a trial's constraints."""

optuna.logging.set_verbosity(optuna.logging.ERROR)


@dataclass(frozen=True, slots=True)
class Copied:
    """A trial as it is to stand in the copy.

    Attributes:
        assignment: The point on the sampler's axes; empty where it is not known.
        score: What it scored; None where it was not measured.
        constraints: Violations by name; at most 0 is feasible.
        began: When it was planned, seconds since 1970.
        ended: When it was told.
        facts: What else is to be read of it.
    """

    assignment: Assignment
    score: float | None
    constraints: Mapping[str, float]
    began: float
    ended: float
    facts: Mapping[str, Any] = field(default_factory=dict)


def copy_study(
    name: str, layout: Layout, trials: Sequence[Copied], into: Path | None = None
) -> BaseStorage:
    """Copy a study into a storage of Optuna's.

    Args:
        name: Its name.
        layout: Its search space on its machine.
        trials: Its told trials, in the order of their numbers.
        into: A SQLite file that is not there yet; the copy stays in memory without one.

    Raises:
        UserError: When the file is there already.
    """
    if into is not None and into.exists():
        raise UserError("there is such a file already", file=into, mend="name another one")
    storage = InMemoryStorage() if into is None else RDBStorage(f"sqlite:///{into}")
    study = optuna.create_study(study_name=name, direction="maximize", storage=storage)
    axes = {axis.name: axis for axis in layout.axes}
    distributions = {name: _distribution(layout, axis) for name, axis in axes.items()}
    study.add_trials([_trial(layout, distributions, one) for one in trials])
    return storage


def _trial(
    layout: Layout, distributions: Mapping[str, BaseDistribution], one: Copied
) -> FrozenTrial:
    known = {
        axis: number for axis, number in one.assignment.items() if _holds(layout, axis, number)
    }
    trial = create_trial(
        state=TrialState.FAIL if one.score is None else TrialState.COMPLETE,
        value=one.score,
        params={axis: _shown(layout, axis, number) for axis, number in known.items()},
        distributions={axis: distributions[axis] for axis in known},
        # By number, as Optuna did before its fifth version: optuna-dashboard knows no others.
        system_attrs={_CONSTRAINTS: list(one.constraints.values())},
        user_attrs={**one.facts, "violations": dict(one.constraints)},
    )
    trial.datetime_start = dt.datetime.fromtimestamp(one.began)  # noqa: DTZ006 - as Optuna has them
    trial.datetime_complete = dt.datetime.fromtimestamp(one.ended)  # noqa: DTZ006 - same
    return trial


def _holds(layout: Layout, name: str, number: float) -> bool:
    """Whether the space as it is now has such an axis, and such a number on it."""
    found = next((axis for axis in layout.axes if axis.name == name), None)
    return found is not None and found.low <= number <= found.high


def _shown(layout: Layout, axis: str, number: float) -> Any:
    """What a number of an axis stands for, as the copy has it."""
    values = layout.decoded(axis, number)
    if axis in layout.entries:
        return ", ".join(f"{name}={_plain(value)}" for name, value in values.items())
    return _plain(values[axis])


def _plain(value: Any) -> bool | int | float | str:
    return value if isinstance(value, bool | int | float | str) else repr(value)


def _distribution(layout: Layout, axis: Axis) -> BaseDistribution:
    if axis.name in layout.entries or axis.name in layout.choices:
        numbers: Iterable[int | float] = axis.values()
        return CategoricalDistribution(tuple(_shown(layout, axis.name, n) for n in numbers))
    if axis.kind == "float":
        return FloatDistribution(axis.low, axis.high, log=axis.log, step=axis.step)
    step = 1 if axis.log else int(axis.step or 1)
    return IntDistribution(int(axis.low), int(axis.high), log=axis.log, step=step)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Requests are not written down."""


def page_server(storage: BaseStorage, port: int) -> WSGIServer:
    """Optuna's page over a storage, on 127.0.0.1 alone; to be run with ``serve_forever``.

    Args:
        storage: What it shows.
        port: The port; 0 for any.

    Raises:
        UserError: When optuna-dashboard is not installed, or the port is taken.
    """
    try:
        import optuna_dashboard  # noqa: PLC0415 - an extra, and heavy
    except ImportError as error:
        raise UserError(
            f"optuna-dashboard cannot be imported: {error}",
            mend="install it: pip install 'enginex-tuner[dashboard]'",
        ) from None
    application = optuna_dashboard.wsgi(storage)
    try:
        server = make_server("127.0.0.1", port, application, _Server, _Quiet)
    except OSError as error:
        raise UserError(
            f"port {port} on 127.0.0.1 cannot be listened on: {error.strerror}",
            mend="choose another one with --port, or 0 for any",
        ) from error
    server.set_app(guarded(application, server.server_port))
    return server


def guarded(application: Callable[..., Any], port: int) -> Callable[..., Any]:
    """An application that answers to its own address alone, so that no other site's page reaches it."""
    ours = {f"127.0.0.1:{port}", f"localhost:{port}"}

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        origin = environ.get("HTTP_ORIGIN", "http://" + environ.get("HTTP_HOST", ""))
        if environ.get("HTTP_HOST") not in ours or origin.removeprefix("http://") not in ours:
            start("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"this address answers to no other name\n"]
        return application(environ, start)

    return answer
