"""A sound or an unsound server for a test, and a way to ask it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from tests.conftest import FAKE
from tuner.launch import ports
from tuner.load.endpoint import Endpoint

Serve = Callable[..., Endpoint]


@contextmanager
def served(switches: tuple[str, ...], **env: str) -> Iterator[Endpoint]:
    port = ports.free_port()
    server = subprocess.Popen(
        [sys.executable, str(FAKE), "--port", str(port), "--enable-prompt-tokens-details"],
        env={"PATH": os.environ["PATH"], "FAKE": ",".join(switches), "FAKE_SPEED": "50", **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    endpoint = Endpoint(model="llm", port=port)
    try:
        while True:
            try:
                httpx.get(f"{endpoint.url}/health", trust_env=False, timeout=30)
                break
            except httpx.ConnectError:
                assert server.poll() is None
                time.sleep(0.02)
        yield endpoint
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:  # a busy machine; it must not outlive the test
            server.kill()
            server.wait()


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda *switches, **env: stack.enter_context(served(switches, **env))
