"""Docker's daemon as this room needs it: a dozen calls, each bounded in time.

A daemon can hang, and a removal that waits for a device that fell off its bus hangs with it. Nothing
here waits longer than its timeout; what did not answer is said to be lost, never assumed.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tuner.errors import DockerLost, LaunchFailed, UserError

if TYPE_CHECKING:
    import docker

CALL_S = 20.0
"""How long one call may take. Creating a container is the slowest of them: a second or two."""

_DEFAULT = "unix:///var/run/docker.sock"
_OLDEST = "1.41"
_GONE = 404
_CONFLICT = 409


class Refused(LaunchFailed):
    """Raised when the daemon answers, and the answer is no.

    Args:
        what: What it was asked to do.
        said: Its reason.
        status: HTTP status of its answer.
    """

    def __init__(self, what: str, said: str, status: int) -> None:
        self.said = said
        self.status = status
        super().__init__(f"docker will not {what}: {said}")


class Docker:
    """A connection to the daemon; made when it is first used, so that nobody else needs one.

    Not to be shared between threads.

    Args:
        timeout: Seconds that a call may take.
    """

    def __init__(self, *, timeout: float = CALL_S) -> None:
        self._timeout = timeout
        self._made: docker.APIClient | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._made is not None:
            self._made.close()
            self._made = None

    def create(self, options: dict[str, Any]) -> str:
        """Create a container, and return its id.

        Args:
            options: What docker's SDK takes for it, the host's part under ``host``.
        """
        host = options.pop("host")
        with self._asked("create a container"):
            client = self._client()
            made = client.create_container(**options, host_config=client.create_host_config(**host))
        return str(made["Id"])

    def start(self, container: str) -> None:
        """Start a container that was created."""
        with self._asked("start the container"):
            self._client().start(container)

    def inspect(self, container: str) -> dict[str, Any] | None:
        """All that the daemon knows of a container; None where it has none of that id or name."""
        try:
            with self._asked("look at the container"):
                found: dict[str, Any] = self._client().inspect_container(container)
        except Refused as error:
            if error.status == _GONE:
                return None
            raise
        return found

    def find(self, label: str, value: str) -> tuple[str, ...]:
        """Ids of all containers, running or not, that carry a label of that value."""
        with self._asked("list containers"):
            found = self._client().containers(all=True, filters={"label": f"{label}={value}"})
        return tuple(str(each["Id"]) for each in found)

    def kill(self, container: str, number: int) -> bool:
        """Send a signal to a container's first process; whether it ran to get it."""
        return self._unless_gone(
            "signal the container", lambda c: c.kill(container, signal=number), _CONFLICT
        )

    def remove(self, container: str) -> None:
        """Remove a container with its anonymous volumes, whatever it does."""
        # 409 says that a removal is under way already.
        self._unless_gone(
            "remove the container",
            lambda c: c.remove_container(container, force=True, v=True),
            _CONFLICT,
        )

    def cpu_seconds(self, container: str) -> float | None:
        """Processor time that a container has used, by the daemon's own count."""
        with self._asked("count processor time"):
            found = self._client().stats(container, stream=False, one_shot=True)
        used = found.get("cpu_stats", {}).get("cpu_usage", {}).get("total_usage")
        return None if used is None else used / 1e9

    def follow(self, container: str) -> LogStream:
        """The container's output from its beginning, and on until it ends or the stream is closed."""
        with self._asked("read the log"):
            return LogStream(self._client().logs(container, stream=True, follow=True))

    # --- the connection --------------------------------------------------------------------------

    def _client(self) -> docker.APIClient:
        if self._made is None:
            self._made = _connect(self._timeout)
        return self._made

    def _unless_gone(self, what: str, call: Any, tolerated: int) -> bool:
        try:
            with self._asked(what):
                call(self._client())
        except Refused as error:
            if error.status in {_GONE, tolerated}:
                return False
            raise
        return True

    @contextlib.contextmanager
    def _asked(self, what: str) -> Iterator[None]:
        import requests  # noqa: PLC0415 - comes with docker's SDK, which only containers need
        from docker import errors  # noqa: PLC0415

        try:
            yield
        except errors.APIError as error:
            raise Refused(what, _reason(error), error.status_code or 0) from error
        except requests.exceptions.Timeout as error:
            self.close()
            raise DockerLost(
                f"docker's daemon gave no answer within {self._timeout:g} s when asked to {what}"
            ) from error
        except (errors.DockerException, requests.exceptions.RequestException) as error:
            self.close()
            raise DockerLost(f"no Docker daemon answers: {error}") from error


class LogStream:
    """A container's output as it comes: an iterator that another thread may close."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def close(self) -> None:
        """End it; whoever waits for the next piece goes on."""
        with contextlib.suppress(OSError, AttributeError):  # it has ended by itself
            self._stream.close()


def endpoint() -> dict[str, Any]:
    """Where the daemon is: ``DOCKER_HOST``, or the context that docker's own command would use.

    Raises:
        UserError: When it is not on this machine: its ports and folders would be another's.
    """
    from docker.context import ContextAPI  # noqa: PLC0415
    from docker.utils import kwargs_from_env  # noqa: PLC0415

    named = bool(os.environ.get("DOCKER_HOST"))
    found = dict(kwargs_from_env() if named else ContextAPI.kwargs_from_context())
    where = str(found.get("base_url", _DEFAULT))
    if not where.startswith(("unix:", "http+unix:")):
        raise UserError(
            f"the Docker daemon at {where} is not on this machine",
            mend="launch: docker needs a daemon that is reached by a unix socket: see DOCKER_HOST",
        )
    return found


def _connect(timeout: float) -> docker.APIClient:
    import docker  # noqa: PLC0415 - half a second that only containers should cost

    where = endpoint()
    _knock(where, timeout)
    # The SDK can ask for the version itself, but where that fails it leaves the socket open.
    asking = docker.APIClient(**where, version=_OLDEST, timeout=timeout)
    with contextlib.closing(asking):
        spoken = asking.version(api_version=False)["ApiVersion"]
    return docker.APIClient(**where, version=spoken, timeout=timeout)


def _knock(where: dict[str, Any], timeout: float) -> None:
    """Connect and hang up: where nobody listens, the SDK would leave its socket open."""
    path = str(where.get("base_url", _DEFAULT)).partition("://")[2]
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(timeout)
        try:
            probe.connect(path)
        except OSError as error:
            raise DockerLost(
                f"no Docker daemon answers at {path}: {error.strerror or error}"
            ) from error


def _reason(error: Any) -> str:
    return " ".join(str(error.explanation or error).split())
