from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import optuna
import pytest
from optuna.trial import TrialState

from tests.fakes.ledgers import fill
from tuner.errors import UserError
from tuner.search.dashboard import Copied, copy_study, guarded, page_server
from tuner.spec.axes import Layout, layout
from tuner.spec.context import Context, Hardware
from tuner.spec.load import parse_space
from tuner.store.ledger import Ledger
from tuner.trial.copying import optuna_copy

SPACE = """\
version: 1
study: shown
engine: {recipe: cpu, model: {make: tiny-hybrid}}
parameters:
  seqs: {flag: --max-num-seqs, choices: [1, 2, 8], baseline: 1}
  moe: {env: ENGINEX_MOE_TINY_IMPL, choices: [native, loop], baseline: loop}
  batch: {flag: --max-num-batched-tokens, integer: {low: 256, high: 20000, log: true}, baseline: 512}
  part: {flag: --gpu-memory-utilization, float: {low: 0.5, high: 0.9}, baseline: 0.5}
budget: {trials: 5}
workload: {kind: conversations, conversations: 1, turns: 1, concurrency: 1, system_tokens: 10,
  turn_tokens: 10, output_tokens: 4, request_timeout: 10s, time_limit: 10s}
"""
HARDWARE = {"devices": [], "cores": 2, "memory_total": 2**34}
POINT = {"seqs": 2, "moe": 0, "batch": 512, "part": 0.6}


@pytest.fixture(scope="module")
def known() -> Layout:
    machine = Hardware(devices=0, cores=2, memory_bytes=2**34, device_memory_bytes=0)
    space = parse_space(SPACE, Path("space.yaml"), relative_to=Path("/"))
    return layout(space, Context.of(space, machine))


def read(storage: optuna.storages.BaseStorage, name: str = "shown") -> list[Any]:
    return optuna.load_study(study_name=name, storage=storage).trials


def test_a_trial_stands_there_with_its_values_and_its_end(known: Layout) -> None:
    one = Copied(POINT, 7.5, {"ttft": -0.5, "start": 0.0}, 100.0, 160.0, {"verdict": "healthy"})
    (found,) = read(copy_study("shown", known, [one]))
    assert found.state is TrialState.COMPLETE
    assert found.value == 7.5
    assert found.params == {"seqs": 8, "moe": "native", "batch": 512, "part": 0.6}
    assert found.system_attrs["constraints"] == [-0.5, 0.0]  # where optuna-dashboard looks
    assert found.constraints == {"0": -0.5, "1": 0.0}
    violations = {"ttft": -0.5, "start": 0.0}
    assert found.user_attrs == {"verdict": "healthy", "violations": violations}
    assert found.duration.total_seconds() == 60


def test_what_was_not_measured_failed(known: Layout) -> None:
    (found,) = read(copy_study("shown", known, [Copied(POINT, None, {"start": 1.0}, 1.0, 2.0)]))
    assert found.state is TrialState.FAIL
    assert found.values is None


def test_numbers_that_the_space_has_no_more_are_left_out(known: Layout) -> None:
    old = {**POINT, "seqs": 17, "gone": 1}
    (found,) = read(copy_study("shown", known, [Copied(old, 1.0, {}, 1.0, 2.0)]))
    assert set(found.params) == {"moe", "batch", "part"}


@pytest.mark.slow
def test_a_file_holds_the_same_and_is_never_replaced(known: Layout, tmp_path: Path) -> None:
    file = tmp_path / "copy.db"
    one = Copied(POINT, 7.5, {}, 1.0, 2.0)
    storage = copy_study("shown", known, [one, one], file)
    storage.engine.dispose()  # type: ignore[attr-defined]  # of a storage in a file
    again = optuna.storages.RDBStorage(f"sqlite:///{file}")
    assert [t.value for t in read(again)] == [7.5, 7.5]
    again.engine.dispose()
    with pytest.raises(UserError, match="already"):
        copy_study("shown", known, [one], file)


@pytest.mark.slow
def test_a_study_of_the_ledger(tmp_path: Path) -> None:
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = fill(ledger, "one", trials=30)
        with pytest.raises(UserError, match="nothing to show yet"):
            optuna_copy(ledger, row)
        ledger.add_facts(row.id, {"hardware": HARDWARE})
        storage = optuna_copy(ledger, ledger.study("one"))
        trials = ledger.trials(row.id)
    found = read(storage, "one")
    assert [t.value for t in found] == [t.score for t in trials]
    assert [t.user_attrs["verdict"] for t in found] == [t.verdict for t in trials]
    assert [t.user_attrs["trial"] for t in found] == [t.number for t in trials]
    assert found[5].user_attrs["missed"] == ["ttft_p90_s"]
    assert found[1].params == {"seqs": 2, "batch": 257}


def test_without_the_extra_it_says_what_to_install(
    known: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna_dashboard", None)
    with pytest.raises(UserError, match=r"pip install 'enginex-tuner\[dashboard\]'"):
        page_server(copy_study("shown", known, []), 0)


@pytest.fixture
def address(known: Layout) -> Iterator[str]:
    server = page_server(copy_study("shown", known, [Copied(POINT, 7.5, {}, 1.0, 2.0)]), 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
def test_optunas_page_shows_the_copy(address: str) -> None:
    with httpx.Client(base_url=address) as client:
        (one,) = client.get("/api/studies").json()["study_summaries"]
        assert one["study_name"] == "shown"
        shown = client.get(f"/api/studies/{one['study_id']}").json()
        assert shown["trials"][0]["values"] == [7.5]
        assert "Optuna Dashboard" in client.get("/dashboard").text
        assert client.get("/api/studies", headers={"Host": "evil.test"}).status_code == 403
        assert client.get("/", headers={"Origin": "http://evil.test"}).status_code == 403


@pytest.mark.slow
def test_a_port_that_is_taken(address: str, known: Layout) -> None:
    with pytest.raises(UserError, match="--port"):
        page_server(copy_study("shown", known, []), int(address.rsplit(":", 1)[1]))


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:5", None, "200 OK"),
        ("localhost:5", "http://localhost:5", "200 OK"),
        ("127.0.0.1:5", "http://evil.test", "403 Forbidden"),
        ("127.0.0.1:6", None, "403 Forbidden"),
        ("evil.test:5", None, "403 Forbidden"),
        (None, None, "403 Forbidden"),
    ],
)
def test_only_its_own_address_is_answered(
    host: str | None, origin: str | None, status: str
) -> None:
    said: list[str] = []

    def application(_: dict[str, Any], start: Any) -> list[bytes]:
        start("200 OK", [])
        return [b""]

    given = {"HTTP_HOST": host, "HTTP_ORIGIN": origin}
    environ = {name: value for name, value in given.items() if value is not None}
    guarded(application, 5)(environ, lambda status, _: said.append(status))
    assert said == [status]
