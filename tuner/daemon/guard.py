"""Who may talk to the daemon: anyone who can open its socket; over TCP only who has the token.

A web page of somebody else can make a browser send requests to 127.0.0.1. So over TCP the host must
be ours (else a foreign name could point here), the origin, where one is said, must be ours, and
changes need the token or the cookie that stands for it, which no other site can set or read.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuner.daemon.problems import problem

COOKIE = "tuner-token"
LARGEST_BODY = 2 * 2**20
_OPEN = ("/v1/", "/metrics", "/openapi.json")
"""Beginnings of paths behind the token; the page's own files hold nothing that is anybody's."""

_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
"""What the page may do: run its own scripts, use its own styles, ask this daemon. Text cannot become
markup in it at all: without a Trusted Types policy a browser refuses ``innerHTML`` and its like."""
_POLICY_NAME = b"content-security-policy"
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

_OWN_POLICY = (_POLICY_NAME, _POLICY)


class Guard:
    """Lets through who may talk to the application behind it.

    Args:
        app: The application.
        token: The token for TCP.
    """

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message.get("headers", [])
                policy = [] if any(name == _POLICY_NAME for name, _ in own) else [_OWN_POLICY]
                message["headers"] = [*own, *_HEADERS, *policy]
            await send(message)

        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            answer = problem(*refusal)
            await answer(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, str] | None:
        if "transfer-encoding" in headers:
            return 411, "a request must say its length beforehand"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            return 413, f"a request may hold at most {LARGEST_BODY} bytes"
        if not over_tcp(scope):
            return None
        port = scope["server"][1]
        ours = {f"127.0.0.1:{port}", f"localhost:{port}"}
        if headers.get("host") not in ours:
            return 403, f"this is 127.0.0.1:{port}, and answers to no other name"
        origin = headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in ours:
            return 403, "requests from other origins are not answered"
        if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
            return 403, "requests from other sites are not answered"
        if scope["path"].startswith(_OPEN) and not self.knows(headers):
            return 401, "over TCP every request needs the token: see `tuner page`"
        return None

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Whether a request carries the token, as a bearer or in the cookie."""
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        return self._same(bearer) or self._same(_cookie(headers.get("cookie", "")))

    def _same(self, given: str) -> bool:
        return bool(self._token) and hmac.compare_digest(
            given.encode("latin-1"), self._token.encode()
        )


def over_tcp(scope: Scope) -> bool:
    """Whether a request came over TCP rather than through the socket."""
    server = scope.get("server")
    return server is not None and server[1] is not None


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""
