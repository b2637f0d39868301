"""A trial's page: its command against the baseline's, its starts, its log while it grows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Looker, Shown
from tests.fakes.ledgers import fill
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin, TrialRow
from tuner.store.stages import Stage
from tuner.trial.entry import attempt_folder, study_folder

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(120)]

FACTS = {
    "engines": {
        "cpu": {"server": ["python", "-m", "server"], "env": {"KEPT": "a b"}, "image": None}
    },
    "models": {"make:tiny-hybrid:0": "/models/it's tiny"},
}
JUDGEMENT = {
    "verdict": "engine_crash", "title": "the engine crashed", "advice": "look above it", "stage": "load",
    "failed": True, "retry": "once", "notes": [], "rule": "crash", "teaches": True, "violation": 1.0,
    "evidence": [{"line": 150, "text": "line 150 of start 2"}],
}  # fmt: skip


@dataclass(slots=True)
class Stand:
    """A study whose second trial runs for the second time."""

    ledger: Ledger
    shown: Shown
    trial: TrialRow

    def log(self, attempt: int) -> Path:
        folder = study_folder(self.ledger, "one")
        return attempt_folder(folder, self.trial.number, attempt) / "engine.log"


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = fill(ledger, "one", trials=1)
        ledger.add_facts(row.id, FACTS)
        ledger.set_status(row.id, "running")
        deployment = {
            "recipe": "cpu", "model": "make:tiny-hybrid:0", "launch": "process", "env": {"NEW": "1"},
            "argv": ["--max-num-seqs", "8", "--enforce-eager"], "served_name": "llm", "files": {},
            "secrets": {"KEY": "HF_TOKEN"}, "image": None, "version": None,
        }  # fmt: skip
        params = {"seqs": 8, "batch": 256}
        trial = ledger.plan(
            row.id, origin=Origin.SEARCH, params=params, assignment=None, deployment=deployment
        )
        trial = ledger.advance(trial, Stage.STARTING)
        for stage in (Stage.STOPPING, Stage.VERIFIED, Stage.PLANNED, Stage.STARTING):
            trial = ledger.advance(trial, stage)
        shown = Shown(tmp_path / "state")
        one = Stand(ledger, shown, trial)
        for attempt in (1, 2):
            one.log(attempt).parent.mkdir(parents=True)
            lines = [f"line {n} of start {attempt}\n" for n in range(1, 201)]
            one.log(attempt).write_text("".join(lines))
        yield one
        shown.close()


def test_the_log_grows_until_the_trial_is_over(looker: Looker, stand: Stand) -> None:
    looker.expected.append("404")  # there are no samples
    looker.open(stand.shown.address, "#/study/one/trial/1")
    page = looker.page
    log = page.locator(".log")
    expect(log).to_contain_text("line 200 of start 2")  # its end, since it still grows
    with stand.log(2).open("a") as file:
        file.write("and one more\n")
    expect(log).to_contain_text("and one more")
    trial = stand.ledger.advance(stand.trial, Stage.STOPPING)
    trial = stand.ledger.advance(
        trial, Stage.VERIFIED, verdict="engine_crash", judgement=JUDGEMENT, feasible=False
    )
    stand.ledger.advance(trial, Stage.TOLD, say={"verdict": "engine_crash", "score": None})
    stand.shown.hint()
    expect(page.locator(".status")).to_contain_text("engine_crash")
    page.get_by_role("button", name="Show line 150 of the log").click()
    proof = log.locator("li.proof")
    expect(proof).to_have_text("line 150 of start 2")
    expect(proof).to_be_in_viewport()


def test_an_earlier_start_has_its_own_log(looker: Looker, stand: Stand) -> None:
    looker.expected.append("404")
    looker.open(stand.shown.address, "#/study/one/trial/1")
    page = looker.page
    log = page.locator(".log")
    expect(log).to_contain_text("of start 2")
    page.get_by_label("Log of", exact=True).select_option("1")
    expect(log).to_contain_text("of start 1")
    expect(log).not_to_contain_text("of start 2")
    page.get_by_label("Find").fill("line 77")
    expect(log.locator("li.found")).to_have_text("line 77 of start 1")
    expect(page.get_by_text("1 lines")).to_be_visible()


def test_the_command_is_the_one_that_a_shell_takes(looker: Looker, stand: Stand) -> None:
    looker.expected.append("404")
    origin = stand.shown.address.split("/#")[0]
    looker.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=origin)
    looker.open(stand.shown.address, "#/study/one/trial/1")
    page = looker.page
    words = page.get_by_role("region", name="Command")
    expect(words.locator("ins")).to_have_text(
        ["NEW=1", 'KEY="$HF_TOKEN"', "--max-num-seqs 8", "--enforce-eager"]
    )
    page.get_by_role("button", name="Copy the command").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    text = page.evaluate("navigator.clipboard.readText()")
    assert ' KEY="$HF_TOKEN" ' in text  # which the shell that takes it fills in
    copied = shlex.split(text)
    assert copied[:3] == ["KEPT=a b", "NEW=1", "KEY=$HF_TOKEN"]
    assert copied[3:] == ["python", "-m", "server", "--model", "/models/it's tiny", "--served-model-name", "llm",
                          "--max-num-seqs", "8", "--enforce-eager"]  # fmt: skip


def test_what_differs_from_the_baseline_is_marked(looker: Looker, stand: Stand) -> None:
    looker.expected.append("404")
    looker.open(stand.shown.address, "#/study/one/trial/1")
    rows = looker.page.locator("tr.other")
    expect(rows).to_have_count(1)  # batch is the baseline's
    expect(rows.first).to_contain_text("seqs")
