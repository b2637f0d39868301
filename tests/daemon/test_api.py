"""The application by itself: over a ledger that was filled by hand, without a daemon's process."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.ledgers import fill
from tuner.daemon.app import make_app
from tuner.daemon.books import Books
from tuner.daemon.guard import COOKIE
from tuner.daemon.hub import Hub
from tuner.daemon.machine import Machine
from tuner.daemon.service import Service
from tuner.store.ledger import Ledger

TOKEN = "t" * 43
CANARY = "hf_canary/5f1c+é"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    with Ledger(tmp_path / "state", write=True) as ledger:
        fill(ledger, "one", trials=12)
    return tmp_path / "state"


@pytest.fixture
def service(state: Path) -> Service:
    return Service(Books(state, write=False), Hub(), Machine())


class Asker:
    """Asks an application, in this process.

    Args:
        app: The application.
        base: Where it seems to be: a port means that it is reached over TCP.
        reraise: Whether its defects come through.
    """

    def __init__(self, app: Any, base: str, *, reraise: bool = True) -> None:
        self._app, self._base, self._reraise = app, base, reraise
        self.cookies = httpx.Cookies()

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self._ask("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self._ask("POST", path, **options)

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app, raise_app_exceptions=self._reraise)
            async with httpx.AsyncClient(
                transport=transport, base_url=self._base, cookies=self.cookies
            ) as client:
                answer = await client.request(method, path, **options)
                self.cookies.update(client.cookies)
                return answer

        return asyncio.run(ask())


@pytest.fixture
def api(service: Service) -> Asker:
    """Through the socket."""
    return Asker(make_app(service, token=TOKEN), "http://tuner")


@pytest.fixture
def tcp(service: Service) -> Asker:
    return Asker(make_app(service, token=TOKEN), "http://127.0.0.1:8421")


def bearer(token: str = TOKEN) -> dict[str, bytes]:
    return {"Authorization": f"Bearer {token}".encode("latin-1")}


# --- what it answers -----------------------------------------------------------------------------


def test_studies_and_trials(api: Asker) -> None:
    (summary,) = api.get("/v1/studies").json()
    assert (summary["study"], summary["trials"], summary["wanted"]) == ("one", 12, None)
    detail = api.get("/v1/studies/one").json()
    assert detail["best"]["score"] == max(detail["scores"])
    assert sum(detail["verdicts"].values()) == 12
    trials = api.get("/v1/studies/one/trials").json()
    assert [t["trial"] for t in trials] == list(range(12))
    part = api.get("/v1/studies/one/trials", params={"after": 4, "limit": 3}).json()
    assert part == trials[5:8]
    whole = api.get("/v1/studies/one/trials/3").json()
    assert {k: whole[k] for k in trials[3]} == trials[3]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/studies/none", 404),
        ("/v1/studies/one/trials/99", 404),
        ("/v1/studies/one/trials/-1", 422),
        ("/v1/studies/ONE", 422),
        ("/v1/nothing", 404),
        ("/v1/studies/one/trials/0/log", 404),
        ("/v1/studies/one/export", 409),
        ("/v1/studies/one/export?trial=3", 409),  # its engine crashed
        ("/v1/studies/one/export?trial=1&format=floppy", 422),
        ("/v1/studies/one/export?trial=1&format=compose&image=-x", 422),
        ("/v1/studies/one/trials?limit=0", 422),
    ],
)
def test_every_error_is_a_problem_of_one_sentence(api: Asker, path: str, status: int) -> None:
    answer = api.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    said = answer.json()
    assert said["status"] == status
    assert said["detail"]
    assert "\n" not in said["detail"]


def test_without_a_daemon_nothing_is_changed(api: Asker) -> None:
    for path in ("stop", "pause"):
        answer = api.post(f"/v1/studies/one/{path}")
        assert answer.status_code == 503
        assert "tuner daemon start" in answer.json()["detail"]
    assert api.post("/v1/shutdown").status_code == 503


def test_metrics_are_in_prometheus_form(api: Asker) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    found = {f.name: f for f in text_string_to_metric_families(api.get("/metrics").text)}
    (best,) = found["tuner_study_best_score"].samples
    assert best.labels == {"study": "one"}
    assert sum(s.value for s in found["tuner_study_trials"].samples) == 12


def test_a_defect_says_nothing_of_our_insides(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Any:
        raise ZeroDivisionError("/home/me/secret")

    monkeypatch.setattr(service.machine, "sample", broken)
    answer = Asker(make_app(service), "http://tuner", reraise=False).get("/v1/devices")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.json()["detail"].startswith("this is a defect of tuner")


# --- files ---------------------------------------------------------------------------------------


def log_of(state: Path, number: int) -> Path:
    folder = state / "studies/one/trials" / f"{number:04d}" / "attempt-1"
    folder.mkdir(parents=True)
    return folder / "engine.log"


def test_a_log_comes_in_whole_lines_and_goes_on_at_its_offset(api: Asker, state: Path) -> None:
    log_of(state, 2).write_text("".join(f"line {n}\n" for n in range(100)) + "half")
    got, offset = "", 0
    while True:
        part = api.get("/v1/studies/one/trials/2/log", params={"offset": offset, "limit": 100})
        got += part.text
        offset = int(part.headers["x-next-offset"])
        if part.headers["x-at-end"] == "true":
            break
        assert part.text.endswith("\n")
    assert got.endswith("line 99\nhalf")
    assert got.count("line") == 100


def test_a_log_that_was_packed_is_read_as_before(api: Asker, state: Path) -> None:
    path = log_of(state, 2)
    with gzip.open(f"{path}.gz", "wb") as out:
        out.write(b"as it was\n")
    assert api.get("/v1/studies/one/trials/2/log").text == "as it was\n"
    assert api.get("/v1/studies/one/trials/2/log?follow=true").text == "as it was\n"


@pytest.mark.parametrize(
    "path",
    [
        "../../ledger.sqlite",
        "..%2f..%2fledger.sqlite",
        "trials/../../../ledger.sqlite",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "link",
        "folder/passwd",
        "study.lock",
        ".hidden",
        "trials",
        "pipe",
        "nul%00",
        "",
    ],
)
def test_no_path_leads_out_of_the_study(api: Asker, state: Path, path: str) -> None:
    folder = state / "studies/one"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "folder").symlink_to("/etc")
    (folder / "study.lock").write_text("x")
    (folder / ".hidden").write_text("x")
    os.mkfifo(folder / "pipe")
    answer = api.get(f"/v1/studies/one/artifacts/{path}")
    assert answer.status_code == 404
    assert "root:" not in answer.text


def test_artifacts_are_listed_without_links_and_locks(api: Asker, state: Path) -> None:
    log_of(state, 0).write_text("hello\n")
    (state / "studies/one/link").symlink_to("/etc/passwd")
    (state / "studies/one/study.lock").write_text("")
    paths = [one["path"] for one in api.get("/v1/studies/one/artifacts").json()]
    assert paths == ["search_space.yaml", "trials/0000/attempt-1/engine.log"]
    assert api.get(f"/v1/studies/one/artifacts/{paths[1]}").text == "hello\n"


def test_a_secret_is_in_no_answer(api: Asker, service: Service, state: Path) -> None:
    service.books.give(1, {"HF_TOKEN": CANARY})
    log = log_of(state, 0)
    pad = "x" * (65536 - len(CANARY) // 2 - 10)  # the secret lies across two pieces
    log.write_text(f"{pad} {CANARY} and {json.dumps(CANARY)}\nend\n")
    (log.parent / "telemetry.jsonl").write_text(json.dumps({"at": 1.0, "gap": CANARY}) + "\n")
    with Ledger(state, write=True) as ledger:
        ledger.note(1, "note", {"text": f"token {CANARY}"})
    answers = [
        api.get("/v1/studies/one/trials/0/log", params={"limit": 200_000}).text,
        api.get("/v1/studies/one/trials/0/log?follow=true").text,
        api.get("/v1/studies/one/artifacts/trials/0000/attempt-1/engine.log").text,
        api.get("/v1/studies/one/trials/0/telemetry").text,
    ]
    for text in answers:
        assert "canary" not in text
        assert "[HF_TOKEN]" in text
    assert answers[0].endswith("\nend\n")


# --- who may ask ---------------------------------------------------------------------------------


def test_over_tcp_the_token_is_needed(tcp: Asker) -> None:
    assert tcp.get("/v1/studies").status_code == 401
    assert tcp.get("/v1/studies", headers=bearer("t" * 42)).status_code == 401
    assert tcp.get("/v1/studies", headers=bearer("")).status_code == 401
    assert tcp.get("/v1/studies", headers=bearer("é")).status_code == 401
    assert tcp.get("/metrics").status_code == 401
    assert tcp.get("/openapi.json").status_code == 401
    assert tcp.get("/v1/studies", headers=bearer()).status_code == 200


def test_a_browser_gets_a_cookie_for_the_token_once(tcp: Asker) -> None:
    assert tcp.post("/v1/session").status_code == 401
    answer = tcp.post("/v1/session", headers=bearer())
    assert answer.status_code == 204
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert tcp.cookies[COOKIE] == TOKEN
    assert tcp.get("/v1/studies").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:8421"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:8422"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "https://127.0.0.1:8421"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_hosts_and_origins_are_refused_with_the_token_even(
    tcp: Asker, headers: dict[str, str]
) -> None:
    assert (
        tcp.get(
            "/v1/studies", headers={**bearer(), **{k: v.encode() for k, v in headers.items()}}
        ).status_code
        == 403
    )
    assert tcp.get("/", headers=headers).status_code == 403


def test_the_page_is_opened_through_the_socket_alone(tcp: Asker) -> None:
    assert tcp.post("/v1/page", headers=bearer()).status_code in {403, 503}


def test_a_port_is_opened_through_the_socket_alone(tcp: Asker, api: Asker) -> None:
    assert tcp.post("/v1/stay", headers=bearer(), json={"tcp": 0}).status_code in {403, 503}
    assert api.post("/v1/stay", json={"tcp": 70_000}).status_code == 422


def test_without_a_token_nobody_gets_in_over_tcp(service: Service) -> None:
    client = Asker(make_app(service), "http://127.0.0.1:8421")
    assert client.get("/v1/studies", headers={"Authorization": "Bearer "}).status_code == 401
    assert client.get("/v1/studies").status_code == 401


def test_bodies_have_a_limit(api: Asker) -> None:
    assert api.post("/v1/studies", content=b"x" * (3 * 2**20)).status_code == 413

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"

    assert api.post("/v1/studies", content=pieces()).status_code == 411


def test_answers_carry_the_headers_that_keep_a_page_safe(api: Asker) -> None:
    for path in ("/v1/studies", "/v1/nothing"):
        headers = api.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
