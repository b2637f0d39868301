from __future__ import annotations

import json

from tests.verdict.cases import load_cases
from tuner.verdict import Evidence, ExitFacts, Numbers, judge, read_log
from tuner.verdict.render import amounts, as_json, as_text

KEYS = {
    "verdict", "title", "stage", "rule", "failed", "teaches", "retry", "violation", "numbers", "exit",
    "starts", "evidence", "notes", "advice",
}  # fmt: skip


def test_json_and_text_of_every_fixture() -> None:
    for case in load_cases():
        judgement = judge(Evidence(log=read_log(case.lines), exit=ExitFacts(status=1)))
        data = json.loads(json.dumps(as_json(judgement)))
        assert set(data) == KEYS
        assert data["evidence"][0].keys() == {"line", "text"}
        text = as_text(judgement)
        assert text.startswith(f"verdict  {judgement.verdict}: ")
        assert "what to do" in text
        assert text.endswith("\n")
        assert max(len(line) for line in text.splitlines()) < 500


PREFIX = (
    "(Worker pid=80) ERROR 11-30 10:00:00 [executor.py:953] ValueError: Available memory on node 0 "
)


def test_what_people_read() -> None:
    lines = [
        PREFIX
        + "(8.88/10.84 GiB) on kv cache allocation is less than requested memory for kv (64.0 GiB).",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ]
    text = as_text(judge(Evidence(log=read_log(lines), exit=ExitFacts(status=1))))
    assert text.splitlines()[:4] == [
        "verdict  kv_space_does_not_fit: the KV space asked for does not fit in memory",
        "stage    kv_cache",
        "exit     exit status 1",
        "amounts  asked 64.0 GiB, available 8.9 GiB, of 10.8 GiB",
    ]
    assert "         1  ValueError: Available memory on node 0" in text
    assert "         2  RuntimeError: Engine core initialization failed." in text


def test_amounts() -> None:
    assert (
        amounts(Numbers("tokens", asked=100000, available=88112))
        == "asked 100,000 tokens, available 88,112 tokens"
    )


def test_the_violation_has_a_slope_and_a_floor() -> None:
    sizes = [10, 16, 32, 64, 1000]
    found = [Numbers("bytes", asked=size, available=9).violation or 0 for size in sizes]
    assert found == sorted(found)
    assert all(0 < value < 1 for value in found)
    assert Numbers("bytes", asked=32, available=70, total=31000).violation == 0.001
    assert (Numbers("bytes", asked=10, available=-8.59).violation or 0) > 1
    assert Numbers("bytes", asked=1).violation is None
    assert Numbers("bytes", available=1).violation is None
    assert Numbers("bytes", asked=0, available=0).violation is None
