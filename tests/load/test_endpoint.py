from __future__ import annotations

from pathlib import Path

import pytest

from tuner.errors import UserError
from tuner.load.endpoint import Endpoint


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/llm/v1/", "http://127.0.0.1:8000/llm"),
        ("http://localhost:81", "http://127.0.0.1:81"),
        ("http://127.9.9.9", "http://127.9.9.9:80"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_urls_of_local_servers(url: str, base: str) -> None:
    assert Endpoint.parse(url, model="m").url == base


def test_unix_sockets() -> None:
    assert Endpoint.parse("unix:/run/x.sock", model="m").uds == Path("/run/x.sock")
    assert Endpoint.parse("unix:///run/x.sock", model="m").uds == Path("/run/x.sock")


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1:8000",
        "http://example.com",
        "https://127.0.0.1",
        "127.0.0.1:8000",
        "",
        "http://",
        "http://127.0.0.1:99999",
        "http://127.0.0.1.example.com",
        "http://[::1",
        "ftp://127.0.0.1",
    ],
)
def test_everything_else_is_refused(url: str) -> None:
    with pytest.raises(UserError):
        Endpoint.parse(url, model="m")


def test_the_key_is_sent_and_not_shown() -> None:
    endpoint = Endpoint.parse("http://127.0.0.1:1", model="m", api_key="canary")
    assert endpoint.headers == {"authorization": "Bearer canary"}
    assert "canary" not in repr(endpoint)
    assert "canary" not in f"{endpoint}"
