"""Names, values, log lines and reasons that want to be markup stay text, in every view."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Looker, Shown
from tests.fakes.ledgers import fill, metrics
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin
from tuner.store.stages import Stage
from tuner.trial.entry import attempt_folder, study_folder

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(120)]

MARKUP = (
    '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\'"&amp;</td></table>'
)
LINK = "javascript:window.hacked=1"
TURNED = "safe\u202egnp.exe\u0000\u200b"
BAD = [MARKUP, LINK, TURNED, "{{7*7}}", "]]><svg/onload=window.hacked=1>", "=cmd|' /C calc'!A0"]


def _trial(ledger: Ledger, study: int, origin: Origin, bad: str) -> int:
    params = {bad: bad, "seqs": 4, f"name {bad}": [bad, {bad: bad}]}
    deployment = {
        "recipe": bad,
        "model": bad,
        "launch": "process",
        "argv": [bad],
        "env": {"A": bad},
    }
    trial = ledger.plan(study, origin=origin, params=params, assignment=None, deployment=deployment)
    measured = metrics(trial.number, 0.2)
    load = measured["workloads"].pop("main")
    load["gates"][0] |= {"figure": bad, "name": bad}
    measured["workloads"][bad] = load
    judgement: dict[str, Any] = {
        "verdict": "engine_crash", "title": bad, "advice": bad, "stage": bad, "failed": True, "retry": "none",
        "notes": [bad], "rule": bad, "teaches": True, "violation": 1.0,
        "evidence": [{"line": 2, "text": bad}, {"line": None, "text": bad}],
    }  # fmt: skip
    for stage in (Stage.STARTING, Stage.READY, Stage.PROBED, Stage.WARMED, Stage.MEASURED):
        trial = ledger.advance(trial, stage)
    trial = ledger.advance(trial, Stage.STOPPING)
    trial = ledger.advance(
        trial, Stage.VERIFIED, verdict=bad, judgement=judgement, metrics=measured, score=900.0,
        feasible=True, constraints={bad: -1.0},
    )  # fmt: skip
    ledger.advance(
        trial, Stage.TOLD, value=900.0, say={"verdict": bad, "score": 900.0, "feasible": True}
    )
    folder = attempt_folder(study_folder(ledger, "bad"), trial.number, 1)
    folder.mkdir(parents=True)
    (folder / "engine.log").write_text("".join(f"INFO {one}\n" for one in ["first", *BAD]))
    sample = {
        "at": 1.0, "stage": bad, "host": {"cpu": 1.0, "memory_available": 1, "memory_limit": 2},
        "devices": [{"key": bad, "index": 0, "name": bad, "memory_used": 1, "utilization": 5.0}],
        "tree": None, "gap": None,
    }  # fmt: skip
    lines = [json.dumps({**sample, "at": float(n)}) for n in range(4)]
    (folder / "telemetry.jsonl").write_text("\n".join([*lines, ""]))
    return trial.number


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = fill(ledger, "bad", trials=1)
        for bad in BAD:
            _trial(ledger, row.id, Origin.SEARCH, bad)
            ledger.note(row.id, "note", {"text": bad})
            ledger.note(row.id, "quarantine", {"reason": bad})
        comparison = {
            "number": 1, "answer": MARKUP, "broken": MARKUP, "runs": [{"arm": MARKUP, "score": 5.0}],
            "ratio": 1.2, "low": 1.0, "high": 1.4, "confidence": 0.95, "sigma": 0.1, "drift": 0.0,
        }  # fmt: skip
        decision = {"baseline": 0, "winner": 1, "clear": True, "comparisons": [comparison]}
        ledger.note(row.id, "decision", decision)
        ledger.quarantine("host", MARKUP)
        ledger.set_status(row.id, "failed", MARKUP)
        (study_folder(ledger, "bad") / "worker.log").write_text(f"{MARKUP}\n")
    one = Shown(tmp_path / "state")
    yield one
    one.close()


def still_text(page: Page) -> None:
    """Nothing of what was told became an element, an address or a script."""
    assert page.evaluate("window.hacked") is None
    strange = page.evaluate(
        """() => [...document.querySelectorAll("script, img, iframe, object, embed, style, [onerror], [onload]")]
             .filter((e) => e.closest("main, #problems, dialog")).map((e) => e.outerHTML)"""
    )
    assert strange == []
    addresses = page.evaluate("[...document.querySelectorAll('a')].map((a) => a.protocol)")
    assert set(addresses) <= {"http:"}
    assert "\u202e" not in page.locator("body").inner_text()


VIEWS = ["#/", "#/study/bad", *(f"#/study/bad/trial/{n}" for n in range(len(BAD) + 1))]
VIEWS += ["#/study/bad/compare/0/1", "#/study/bad/compare/1/2", "#/machine", "#/new"]


def test_nothing_that_is_told_becomes_markup(looker: Looker, shown: Shown) -> None:
    looker.open(shown.address)
    page = looker.page
    for view in VIEWS:
        looker.go(view)
        page.wait_for_timeout(400)
        still_text(page)
    looker.expected.append("404")  # the baseline has no log
    looker.go("#/study/bad")
    expect(page.locator("main")).to_contain_text(MARKUP)
    looker.picture("hostile-study")
    looker.go("#/study/bad/trial/1")
    expect(page.locator(".log")).to_contain_text(MARKUP)
    expect(page.locator(".evidence").first).to_contain_text(MARKUP)
    looker.picture("hostile-trial")


def test_news_that_comes_later_stays_text(looker: Looker, shown: Shown, tmp_path: Path) -> None:
    looker.open(shown.address, "#/study/bad")
    page = looker.page
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = ledger.study("bad")
        _trial(ledger, row.id, Origin.SEARCH, f"late {MARKUP}")
        shown.hint()
        expect(page.locator(".happenings")).to_contain_text(f"late {MARKUP}")
    page.wait_for_timeout(600)
    still_text(page)


def test_addresses_that_nobody_made_lead_nowhere(looker: Looker, shown: Shown) -> None:
    looker.open(shown.address)
    looker.expected += ["404", "422"]
    page = looker.page
    for view in (
        f"#/{MARKUP}",
        f"#/study/{MARKUP}",
        "#/study/%2e%2e%2fhealth",
        "#/study/none",
        "#/study/bad/trial/99999",
    ):
        page.evaluate("view => { location.hash = view }", view)
        expect(page.locator("main .problem, main p.problem").first).to_be_visible()
        still_text(page)


def test_the_page_may_run_nothing_but_its_own(looker: Looker, shown: Shown) -> None:
    looker.open(shown.address)
    looker.expected += [
        "Content Security Policy",
        "TrustedHTML",
        "Trusted Type",
        "inline script",
        "trusted-types",
        "This document requires",
    ]
    refused = looker.page.evaluate(
        """() => {
          const found = [];
          const attempt = (name, action) => { try { action(); } catch (e) { found.push(name); } };
          attempt("innerHTML", () => { document.querySelector("main").innerHTML = "<b>x</b>"; });
          attempt("script", () => {
            const script = document.createElement("script");
            script.textContent = "window.hacked = 1";
            document.body.append(script);
          });
          return found;
        }"""
    )
    assert refused == ["innerHTML", "script"]
    assert looker.page.evaluate("window.hacked") is None
