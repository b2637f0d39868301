from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from tests.load.conftest import Mock, start_mock
from tuner.cli.bench import bench
from tuner.cli.find import gated, margin
from tuner.errors import UserError
from tuner.load.record import Record
from tuner.load.run import LoadResult
from tuner.load.store import read_records

__all__ = ["start_mock"]

TALKS = """
kind: conversations
conversations: 3
turns: 2
concurrency: 2
system_tokens: 100
turn_tokens: {min: 20, max: 60}
output_tokens: 8
warmup: {conversations: 1}
"""
TWO = """
workloads:
  curve: {kind: decode_curve, concurrencies: [1, 2], rounds: 1, prompt_tokens: 64, output_tokens: 4}
  like: {kind: official_like, requests: 10, scale: 0.05, concurrency: 4}
"""


@pytest.fixture
def mock(start_mock: Callable[..., Mock]) -> Mock:
    return start_mock()


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(bench)
    result = CliRunner().invoke(app, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "chat.yaml"
    path.write_text(TALKS)
    return path


def test_text_and_records(mock: Mock, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    found = run("--url", mock.endpoint.url, "--workload", str(file), "--out", str(out))
    assert found.exit_code == 0, found.output
    assert "chat: 6 requests" in found.output
    assert "6 requests planned, 6 sent, 6 succeeded" in found.output
    assert "token counts: 3 prompts and 6 answers are as the tokenizer says" in found.output
    records = list(read_records(out))
    assert len(records) == 6
    assert all(record.ok and record.workload == "chat" for record in records)
    assert len(mock.requests()) == 8  # the warm-up's two are not among the records


def test_a_file_that_cannot_be_written_is_said_before_anything_is_sent(
    mock: Mock, file: Path, tmp_path: Path
) -> None:
    asked = ("--url", mock.endpoint.url, "--workload", str(file), "--out")
    for out, why in ((tmp_path, "Is a directory"), (tmp_path / "no" / "x", "No such file")):
        with pytest.raises(UserError, match=f"cannot be written: {why}"):
            run(*asked, str(out))
    assert mock.requests() == []
    kept = tmp_path / "kept.jsonl"
    kept.write_text("before")
    with pytest.raises(UserError):
        run("--url", "http://127.0.0.1:1", "--workload", str(file), "--out", str(kept))
    assert kept.read_text() == "before"
    with pytest.raises(UserError):
        run("--url", "http://127.0.0.1:1", "--workload", str(file), "--out", f"{kept}.new")
    assert list(tmp_path.glob("*.new")) == []


def test_json(mock: Mock, file: Path) -> None:
    found = run("--url", mock.endpoint.url, "--workload", str(file), "--json", "--name", "n")
    load = json.loads(found.output)["loads"]["chat"]
    assert load["population"]["succeeded"] == 6
    assert load["tokens"]["output"] == 48
    assert load["token_counts_off"] == 0
    assert load["name"] == "n"
    assert len(load["fingerprint"]) == 64


@pytest.mark.slow
def test_several_workloads_with_levels(mock: Mock, tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(TWO)
    found = run("--url", mock.endpoint.url, "--workload", str(path), "--model", "llm", "--json")
    loads = json.loads(found.output)["loads"]
    assert list(loads) == ["curve-c1", "curve-c2", "like"]
    assert loads["curve-c2"]["population"]["planned"] == 2
    assert loads["like"]["shape"][0] == {"what": "requests", "published": "881", "own": "10"}
    assert "prompt tokens, mean" in run("--url", mock.endpoint.url, "--workload", str(path)).output


def test_runs_of_one_name_ask_the_same(mock: Mock, file: Path) -> None:
    for name in ("a", "a", "b"):
        run("--url", mock.endpoint.url, "--workload", str(file), "--name", name)
    bodies = [one["body_sha"] for one in mock.requests()]
    assert sorted(bodies[:8]) == sorted(bodies[8:16])
    assert not set(bodies[:8]) & set(bodies[16:])


def test_failures_make_it_fail(mock: Mock, file: Path) -> None:
    lost = f"{mock.endpoint.url}/nowhere"
    with pytest.raises(UserError, match="does not say which model"):
        run("--url", lost, "--workload", str(file))
    mock.process.kill()
    mock.process.wait()
    with pytest.raises(UserError, match="does not say which model"):
        run("--url", mock.endpoint.url, "--workload", str(file))


def test_mistakes(mock: Mock, file: Path, tmp_path: Path) -> None:
    url = ("--url", mock.endpoint.url)
    with pytest.raises(UserError, match="no such file"):
        run(*url, "--workload", str(tmp_path / "none.yaml"))
    with pytest.raises(UserError, match="another machine"):
        run("--url", "http://example.com", "--workload", str(file))
    file.write_text(TALKS.replace("turns: 2", "turn: 2"))
    with pytest.raises(UserError, match="did you mean turns") as caught:
        run(*url, "--workload", str(file))
    assert caught.value.line == 4
    for text, said in {
        "[1]": "a workload is a mapping",
        "workloads: {}": "no workload",
        "kind: nothing": "must be 'conversations'",
        f"workload: {{{TALKS.strip()}}}".replace("\n", ", ")
        + "\nworkloads: {a: {kind: x}}": "must be 'conversations'",
    }.items():
        file.write_text(text)
        with pytest.raises(UserError, match=said):
            run(*url, "--workload", str(file))


def test_an_open_replay_counts_what_a_limit_held_back(
    start_mock: Callable[..., Mock], tmp_path: Path
) -> None:
    mock = start_mock("--ttft", "0.2")
    (tmp_path / "t.jsonl").write_text(
        '{"arrival_s": 0, "prompt_tokens": 20, "output_tokens": 1}\n' * 5
    )
    file = tmp_path / "replay.yaml"
    replay = "{kind: replay, file: t.jsonl, mode: open, LIMITwarmup: {requests: 0}}"
    slowest = {}
    for limit in ("", "concurrency: 1, "):
        file.write_text(replay.replace("LIMIT", limit))
        found = run("--url", mock.endpoint.url, "--workload", str(file), "--json")
        figures = json.loads(found.output)["loads"]["replay"]["figures"]
        slowest[limit] = figures["ttft_max_s"]
    assert mock.log()["peak"] == 5  # nothing is held back unless it is asked for
    assert slowest["concurrency: 1, "] > 5 * 0.2


def test_a_search_judges_an_open_loop_from_when_its_requests_were_due() -> None:
    record = Record(
        "w", 0, 0, 0.0, 3.0, 3.1, 3.2, prompt_tokens=1, cached_tokens=0, output_tokens=1
    )
    result = LoadResult("w", "", "s", (record,), 3.2, 0.0, 0.0, None, 0.0, "scheduled")
    gates = gated(["ttft_p90_s=2"])
    assert margin(gates, result) < 0
    assert margin(gates, replace(result, since="sent")) > 0


def test_the_highest_concurrency_within_a_gate(start_mock: Callable[..., Mock], file: Path) -> None:
    mock = start_mock("--ttft", "0.001")
    asked = ("--url", mock.endpoint.url, "--workload", str(file), "--find-concurrency", "1,3")
    found = run(*asked, "--gate", "ttft_p90_s=60", "--gate", "success_rate=1", "--json")
    assert found.exit_code == 0
    levels = [{"level": n, "outcome": "met", "times": 1} for n in (1.0, 2.0, 3.0)]
    assert json.loads(found.output) == {"level": 3.0, "missed": None, "levels": levels}
    bodies = [one["body_sha"] for one in mock.requests()]
    assert len(bodies) == len(set(bodies))  # no level meets another one's cache
    found = run(*asked, "--gate", "ttft_p90_s=0.0001")
    assert (found.exit_code, found.output.splitlines()[-1]) == (
        1,
        "conversations at once: none of these held the gates",
    )
    assert run(*asked, "--gate", "cache_hit_rate=1").exit_code == 1  # a share that is missed


def test_the_highest_rate_within_a_gate(mock: Mock, file: Path) -> None:
    asked = ("--url", mock.endpoint.url, "--workload", str(file), "--find-rate", "50,100")
    found = run(*asked, "--gate", "ttft_p90_s=60")
    assert found.exit_code == 0
    assert found.output.splitlines()[-1] == (
        "conversations started a second: up to 100 held the gates"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--find-rate", "2"], "are no bounds"),
        (["--find-rate", "4,2"], "levels must rise"),
        (["--find-rate", "1,nan"], "are no bounds"),
        (["--find-rate", "1,inf"], "must be finite"),
        (["--find-concurrency", "1,2.5"], "whole bounds"),
        (["--find-concurrency", "1,4"], "never reached: there are 3"),
        (["--find-rate", "1,2", "--find-concurrency", "1,2"], "with one of"),
        (["--find-rate", "1,2", "--out", "x"], "without --out"),
        (["--gate", "e2e_p90_s=2"], "with one of"),
        (["--find-rate", "1,2", "--gate", "speed=2"], "no figure called 'speed'"),
        (["--find-rate", "1,2", "--gate", "ttft_p90_s"], "--gate"),
        (["--find-rate", "1,2", "--gate", "ttft_p90_s=nan"], "--gate"),
    ],
)
def test_what_cannot_be_searched(mock: Mock, file: Path, words: list[str], said: str) -> None:
    gate = [] if "--gate" in words else ["--gate", "ttft_p90_s=2"]
    with pytest.raises(UserError, match=said):
        run("--url", mock.endpoint.url, "--workload", str(file), *words, *gate)
    asked = ("--url", mock.endpoint.url, "--workload", str(file), "--find-rate", "1,2")
    with pytest.raises(UserError, match="nothing says which load holds"):
        run(*asked)
    file.write_text(TWO)
    with pytest.raises(UserError, match="one workload is searched at a time"):
        run(*asked, "--gate", "wall_s=9")
    file.write_text("kind: decode_curve\nconcurrencies: [1, 2]\n")
    with pytest.raises(UserError, match="levels of its own"):
        run(*asked, "--gate", "wall_s=9")
