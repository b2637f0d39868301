"""How long a study still takes, as its panel says."""

from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console

from tuner.cli.live import PlainLines, panel
from tuner.cli.view import StudyView
from tuner.telemetry.samples import DeviceSample, HostSample, Sample, TreeSample
from tuner.trial.events import Happening


def view() -> StudyView:
    found = StudyView("one", budget={"trials": 4, "repeats": 8.0})
    found.spent = {"typical": 10.0, "trials": 4, "engine": 40.0, "wall": 40.0}
    return found


def repeat(seen: StudyView, number: int) -> float | None:
    data: dict[str, Any] = {"origin": "repeat", "params": {}}
    seen.hear(Happening("plan", number, data, 0.0))
    told = {"verdict": "healthy", "score": 1.0, "feasible": True}
    seen.hear(Happening("told", number, told, 0.0))
    return seen.seconds_left


def test_the_time_left_falls_to_nothing_with_the_last_planned_start() -> None:
    seen = view()
    assert seen.seconds_left == 80.0
    seen.hear(Happening("finalists", None, {"starts": 3, "numbers": [1], "rounds": 2}, 0.0))
    assert [repeat(seen, n) for n in (5, 6, 7)] == [20.0, 10.0, 0.0]


def test_a_round_more_counts_again() -> None:
    seen = view()
    seen.hear(Happening("finalists", None, {"starts": 2, "numbers": [1], "rounds": 2}, 0.0))
    assert [repeat(seen, n) for n in (5, 6, 7, 8)] == [10.0, 0.0, 10.0, 0.0]


def test_what_the_gate_of_a_proxy_does_is_a_line_of_its_own() -> None:
    seen, out = view(), Console(width=200, record=True, file=StringIO())
    lines = PlainLines(seen, out)
    lines.hear(Happening("gate", 7, {"what": "opened", "text": "it orders from now on"}, 0.0))
    audit = {"what": "audit", "text": "an audit: drawn by chance", "point": "p"}
    lines.hear(Happening("gate", 9, audit, 0.0))
    said = ["it orders from now on", "trial 9: an audit: drawn by chance"]
    assert [*seen.notes, seen.proxy] == said
    shown = out.export_text().splitlines()
    assert [line.partition("  ")[2] for line in shown] == said


def test_what_a_trusted_proxy_does_at_every_trial_pushes_no_warning_out() -> None:
    seen, out = view(), Console(width=200, record=True, file=StringIO())
    seen.hear(Happening("note", None, {"text": "level short rejects nobody any more"}, 0.0))
    seen.hear(
        Happening("quarantine", 3, {"device": "GPU-0", "reason": "it does not come back"}, 0.0)
    )
    seen.hear(Happening("gate", 4, {"what": "opened", "text": "the proxy orders"}, 0.0))
    for number in range(5, 30):
        data = {"what": "ordered", "text": "put first by the proxy", "point": "p"}
        seen.hear(Happening("gate", number, data, 0.0))
        off = {"what": "deferred", "text": "the proxy puts 2 points off", "points": ["a", "b"]}
        seen.hear(Happening("gate", number, off, 0.0))
    kept = [
        "level short rejects nobody any more",
        "in quarantine: GPU-0: it does not come back",
        "the proxy orders",
    ]
    assert seen.notes == kept
    out.print(panel(seen))
    shown = out.export_text()
    for line in (*kept, "the proxy puts 2 points off"):
        assert shown.count(line) == 1
    seen.hear(Happening("gate", 30, {"what": "closed", "text": "the proxy is shut out"}, 0.0))
    assert (seen.proxy, seen.notes[-1]) == ("", "the proxy is shut out")
    for number in range(9):
        seen.hear(Happening("note", None, {"text": f"note {number}"}, 0.0))
    assert seen.notes == [f"note {number}" for number in range(4, 9)]


def shown(seen: StudyView) -> str:
    out = Console(width=200, record=True, file=StringIO())
    out.print(panel(seen))
    return out.export_text()


def test_how_the_machine_does_is_a_row_while_a_trial_runs() -> None:
    seen = view()
    cards = (
        DeviceSample(0, memory_used=28 * 2**30, memory_total=32 * 2**30, utilization=87.4),
        DeviceSample(1, memory_used=2**30),
        DeviceSample(2, error="fell off the bus"),
    )
    host = HostSample(cpu=12.3, memory_available=None, memory_limit=None)
    tree = TreeSample(processes=3, rss=5 * 2**30, pss=4 * 2**30, cpu_seconds=1.0)
    sample = Sample(1.0, "measured", host, tree, cards)
    seen.hear(Happening("sample", 3, sample.as_json(), 0.0))
    assert (
        "host 12 % busy · engine 4.0 GiB · device 0 87 % busy, 28.0 GiB of 32.0 GiB"
        " · device 1 1.0 GiB · device 2 cannot be read"
    ) in shown(seen)
    told = {"verdict": "healthy", "score": 1.0, "feasible": True}
    seen.hear(Happening("told", 3, told, 0.0))
    assert "busy" not in shown(seen)


def test_a_sample_that_knows_nothing_says_only_that() -> None:
    seen = view()
    seen.hear(Happening("sample", 3, Sample(1.0, "measured", None, None, None).as_json(), 0.0))
    assert "devices cannot be read" in shown(seen)
    seen.hear(Happening("sample", 3, Sample(1.0, "measured", None, None, ()).as_json(), 0.0))
    assert "machine" not in shown(seen)
