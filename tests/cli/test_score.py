from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tuner.cli.score import score
from tuner.errors import UserError

REQUESTS = Path(__file__).parents[1] / "data" / "score" / "platform_requests.csv"
WALLS = ("--wall", "655=10412.19", "--wall", "694=46800.04")


def run(*arguments: str) -> str:
    app = typer.Typer()
    app.command()(score)
    result = CliRunner().invoke(app, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_json_of_the_platform_runs() -> None:
    loads = json.loads(run(str(REQUESTS), "--json", *WALLS))["loads"]
    assert list(loads) == ["655", "694"]
    first = loads["655"]
    assert first["standing"] == "incomplete"
    assert first["figures"]["output_tps_p10"] == pytest.approx(3.54284, abs=6e-6)
    assert first["figures"]["output_tps"] == pytest.approx(697.7092176 / 60, rel=1e-6)
    assert first["figures"]["weighted"] is None
    assert "cached" in first["missing"]["weighted"]
    assert [bucket["count"] for bucket in first["buckets"]] == [21, 97, 23, 9, 5, 1, 0]
    assert first["gates"][0] == {
        "figure": "success_rate",
        "limit": 0.99,
        "at_least": True,
        "value": pytest.approx(156 / 881),
        "outcome": "failed",
        "margin": pytest.approx(156 / 881 / 0.99 - 1),
    }


def test_text_shows_gates_margins_and_what_is_missing() -> None:
    text = run(str(REQUESTS), *WALLS)
    assert "881 requests planned, 683 sent, 643 succeeded (73.0 %)" in text
    assert "the population is incomplete" in text
    gate = next(line for line in text.splitlines() if line.strip().startswith("output_tps_p10"))
    assert gate.split() == ["output_tps_p10", "3.543", ">=", "20.00", "-82.3", "%", "failed"]
    assert "no success says when its first token came" in text


def test_a_file_of_one_load_needs_no_name(tmp_path: Path) -> None:
    file = tmp_path / "one.csv"
    file.write_text("outcome,prompt_tokens,cached_tokens,output_tokens,total_s\nok,100,50,20,2\n")
    found = json.loads(
        run(str(file), "--json", "--wall", "4", "--planned", "2", "--profile", "none")
    )["loads"][""]
    assert found["figures"]["weighted"] == pytest.approx(16.796 * 5 + (2.799 + 0.56) * 12.5)
    assert found["population"]["planned"] == 2
    assert found["gates"] == []


def test_goodput_under_limits() -> None:
    found = json.loads(run(str(REQUESTS), "--json", *WALLS, "--limit", "e2e_s=60"))["loads"]["655"]
    assert found["figures"]["goodput_share"] == pytest.approx(126 / 881)
    assert "goodput" in run(str(REQUESTS), *WALLS, "--limit", "e2e_s=60", "--limit", "output_tps=1")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--limit", "speed=2"), "speed"),
        (("--limit", "ttft_s"), "--limit ttft_s"),
        (("--limit", "ttft_s=-1"), "above 0"),
        (("--profile", "mine"), "no profile 'mine'"),
        (("--wall", "5"), "holds 2 loads"),
        (("--wall", "700=5"), "no load '700'"),
        (("--wall", "655=soon"), "not a number above 0"),
        (("--wall", "655=-1"), "not a number above 0"),
        (("--planned", "655=10"), "has 881 requests"),
        (("--planned", "655=900.5"), "has 881 requests"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(UserError, match=why):
        run(str(REQUESTS), *arguments)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read") as caught:
        run(str(tmp_path / "none.jsonl"))
    assert caught.value.file == tmp_path / "none.jsonl"


def test_a_malformed_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"sent": 1}\n{"sent": 2\n')
    with pytest.raises(UserError, match="not a record") as caught:
        run(str(file))
    assert caught.value.line == 2


def test_an_unknown_limit_is_named_with_those_there_are() -> None:
    with pytest.raises(UserError) as caught:
        run(str(REQUESTS), "--limit", "ttft=1")
    assert str(caught.value) == (
        "--limit: there is no 'ttft' — take one of ttft_s, tpot_s, e2e_s, output_tps"
    )


def test_latencies_from_when_requests_were_due(tmp_path: Path) -> None:
    row = {
        "scheduled": 0,
        "sent": 2,
        "first_token": 3,
        "end": 4,
        "prompt_tokens": 8,
        "output_tokens": 2,
    }
    file = tmp_path / "r.jsonl"
    file.write_text(json.dumps(row) + "\n")
    for words, ttft in (((), 1.0), (("--from-due",), 3.0)):
        load = json.loads(run(str(file), "--json", *words))["loads"][""]
        assert load["figures"]["ttft_p90_s"] == pytest.approx(ttft)
        assert load["buckets"][0]["ttft_s"]["p50"] == pytest.approx(ttft)
