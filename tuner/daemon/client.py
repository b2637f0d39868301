"""The command line's side of the API: through the socket, or to an application that only reads."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import httpx

from tuner.daemon import home
from tuner.errors import StudyConflict, StudyNotFound, TunerError, UserError

_PATIENCE = 30.0
_KINDS: dict[int, type[UserError]] = {404: StudyNotFound, 409: StudyConflict}


class DaemonGone(TunerError):
    """Raised when the daemon ends in the middle of a conversation."""


class Client:
    """Talks to the daemon of a state folder; where none runs, reads the folder itself.

    Args:
        state: The state folder.
        need: Whether a daemon must run.
        patience: Seconds for an answer.

    Raises:
        UserError: When a daemon must run and none does.
    """

    def __init__(self, state: Path, *, need: bool = False, patience: float = _PATIENCE) -> None:
        self.state = state
        self.address = home.read_address(state)
        if need:
            self.want()
        self._http: httpx.Client | None = None
        if self.address is not None:
            transport = httpx.HTTPTransport(uds=self.address.socket)
            timeout = httpx.Timeout(patience, connect=min(patience, 5.0))
            self._http = httpx.Client(transport=transport, base_url="http://tuner", timeout=timeout)

    def want(self) -> None:
        """Make sure of a daemon.

        Raises:
            UserError: When none runs.
        """
        if self.address is None:
            raise UserError("no daemon runs here", mend="start one with `tuner daemon start`")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        if self._http is not None:
            self._http.close()

    def get(self, path: str, **query: Any) -> Any:
        """What a path answers, read as JSON."""
        return self._ask("GET", path, query=query).json()

    def text(self, path: str, **query: Any) -> httpx.Response:
        """What a path answers."""
        return self._ask("GET", path, query=query)

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Ask for something to be done."""
        return self._ask("POST", path, body=body).json()

    def patch(self, path: str, body: dict[str, Any]) -> Any:
        """Ask for something to be changed."""
        return self._ask("PATCH", path, body=body).json()

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
    ) -> httpx.Response:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            if self._http is None:
                answer = asyncio.run(_read_only(self.state, method, path, given))
            else:
                answer = self._http.request(method, path, params=given or None, json=body)
        except httpx.TransportError as error:
            raise DaemonGone(f"the daemon does not answer: {error}") from error
        _raise_problem(answer)
        return answer

    @contextlib.contextmanager
    def events(self, path: str, after: int) -> Iterator[Iterator[dict[str, Any]]]:
        """The events of a path, one by one; they end when the daemon does.

        Raises:
            DaemonGone: When the daemon breaks off.
        """
        if self._http is None:
            raise UserError("no daemon runs here", mend="start one with `tuner daemon start`")
        quiet = httpx.Timeout(60.0, connect=5.0)  # a heartbeat comes every 15 s
        try:
            with self._http.stream("GET", path, params={"after": after}, timeout=quiet) as answer:
                if answer.is_error:
                    answer.read()
                    _raise_problem(answer)
                yield _parse(answer.iter_lines())
        except httpx.TransportError as error:
            raise DaemonGone(f"the daemon broke off: {error}") from error


def _parse(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("data: "):
            found: dict[str, Any] = json.loads(line.removeprefix("data: "))
            yield found


def _raise_problem(answer: httpx.Response) -> None:
    """Raise what a problem says.

    Raises:
        UserError: For what the client can mend.
        TunerError: For what it cannot.
    """
    if not answer.is_error:
        return
    try:
        said = answer.json()
        text = "\n".join([said["detail"], *(f"  {line}" for line in said["errors"])])
    except (ValueError, KeyError, TypeError):
        text = f"the daemon answered {answer.status_code}"
    if answer.status_code < 500:
        raise _KINDS.get(answer.status_code, UserError)(text)
    raise TunerError(text)


async def _read_only(state: Path, method: str, path: str, query: dict[str, Any]) -> httpx.Response:
    """Ask an application of our own, which holds nothing and changes nothing."""
    from tuner.daemon.app import make_app  # noqa: PLC0415 - heavy, and needed only here
    from tuner.daemon.books import Books  # noqa: PLC0415
    from tuner.daemon.hub import Hub  # noqa: PLC0415
    from tuner.daemon.machine import Machine  # noqa: PLC0415
    from tuner.daemon.service import Service  # noqa: PLC0415

    service = Service(Books(state, write=False), Hub(), Machine())
    transport = httpx.ASGITransport(app=make_app(service))  # its server has no port: not TCP
    async with httpx.AsyncClient(transport=transport, base_url="http://tuner") as http:
        return await http.request(method, path, params=query or None)
