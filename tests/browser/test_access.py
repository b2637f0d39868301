"""The page by the keyboard alone, and for eyes of every kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import TOKEN, Looker, Shown
from tests.fakes.ledgers import add_trial, fill
from tuner.store.ledger import Ledger
from tuner.trial.entry import attempt_folder, study_folder

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(120)]

AXE = Path(__file__).parent / "axe" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
VIEWS = {
    "studies": "#/",
    "study": "#/study/one",
    "study-running": "#/study/two",
    "trial": "#/study/one/trial/1",
    "trial-failed": "#/study/one/trial/3",
    "compare": "#/study/one/compare/0/1",
    "machine": "#/machine",
    "new": "#/new",
}


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    with Ledger(tmp_path / "state", write=True) as ledger:
        fill(ledger, "one", trials=40)
        row = fill(ledger, "two", trials=12)
        ledger.set_status(row.id, "running")
        one = ledger.study("one")
        runs = [{"arm": arm, "score": 1000.0 + 90 * (arm == "B")} for arm in "ABBA"]
        comparison = {
            "number": 1, "answer": "better", "broken": None, "runs": runs, "ratio": 1.09, "low": 1.02, "high": 1.2,
            "confidence": 0.95, "sigma": 0.01, "drift": 0.0,
        }  # fmt: skip
        decision = {"baseline": 0, "winner": 1, "clear": True, "comparisons": [comparison]}
        ledger.note(one.id, "decision", decision)
        level = {"level": "brief", "leaves_out": "half of the load", "cost": 12.0, "measured": 9, "held": 3, "pairs": 6,
                 "tau": 0.83, "standing": "trusted", "why": "it agrees", "retired_because": None}  # fmt: skip
        real = {"level": "real", "leaves_out": "", "cost": 40.0, "measured": 6}
        ledger.note(one.id, "levels", {"rows": [level, real]})
        for number in (1, 3):
            folder = attempt_folder(study_folder(ledger, "one"), number, 1)
            folder.mkdir(parents=True)
            (folder / "engine.log").write_text("".join(f"INFO line {n}\n" for n in range(300)))
            samples: list[dict[str, Any]] = [
                {"at": float(n), "stage": "start" if n < 5 else "measure", "gap": None, "devices": [],
                 "host": {"cpu": 50.0, "memory_available": 2**30, "memory_limit": 2**32}, "tree": None}
                for n in range(20)
            ]  # fmt: skip
            text = "".join(f"{json.dumps(sample)}\n" for sample in samples)
            (folder / "telemetry.jsonl").write_text(text + "{}\n")
    found = Shown(tmp_path / "state")
    yield found
    found.close()


def findings(page: Page) -> list[str]:
    """What axe finds wrong, in words."""
    page.evaluate(AXE.read_text())
    found = page.evaluate(
        "rules => axe.run(document, { runOnly: { type: 'tag', values: rules } })", RULES
    )
    assert "color-contrast" in {one["id"] for one in found["passes"]}  # it was looked at
    return [
        f"{one['id']}: {one['help']}: {node['html'][:200]} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("looker", ["light", "dark"], indirect=True)
def test_contrast_names_and_roles(
    looker: Looker, shown: Shown, request: pytest.FixtureRequest
) -> None:
    scheme = request.node.callspec.params["looker"]
    looker.expected.append("404")  # the baseline, filled by hand, has no log
    looker.open(shown.address)
    wrong = []
    for name, view in VIEWS.items():
        looker.go(view)
        looker.page.wait_for_timeout(700)
        looker.picture(f"{name}-{scheme}")
        wrong += [f"{name}: {line}" for line in findings(looker.page)]
    assert wrong == []


def focused(page: Page) -> str:
    found: str = page.evaluate(
        "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
    )
    return found


def tab_to(page: Page, words: str, most: int = 60) -> None:
    """Press Tab until something with these words has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if words in focused(page):
            return
    pytest.fail(f"Tab never comes to {words}")


def test_the_keyboard_is_enough(looker: Looker, shown: Shown) -> None:
    looker.open(shown.address)
    page = looker.page
    page.keyboard.press("Tab")
    assert focused(page) == "To the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"

    tab_to(page, "one")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="one", exact=True)).to_be_visible()
    page.locator(".list tbody tr[data-row]").first.wait_for()

    tab_to(page, "Trials; arrow keys")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    assert focused(page) == "2"
    page.keyboard.press("End")
    assert focused(page) == "39"
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Trial 1")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="one", exact=True)).to_be_visible()

    tab_to(page, "Give it more")
    page.keyboard.press("Enter")
    expect(page.locator("dialog")).to_be_visible()
    assert page.evaluate("document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    assert focused(page) == "Give it more"


def test_news_leave_the_focus_where_it_is(looker: Looker, shown: Shown, tmp_path: Path) -> None:
    looker.open(shown.address, "#/study/two")
    page = looker.page
    page.locator(".list tbody tr[data-row]").first.wait_for()
    page.get_by_role("link", name="Report").focus()
    with Ledger(tmp_path / "state", write=True) as ledger:
        add_trial(ledger, ledger.study("two"))
        ledger.set_status(ledger.study("two").id, "finished")
    shown.hint()
    expect(page.locator(".status.finished")).to_be_visible()
    assert focused(page) == "Report"


def test_columns_are_sorted_by_the_keyboard(looker: Looker, shown: Shown) -> None:
    looker.open(shown.address, "#/study/one")
    page = looker.page
    page.locator(".list tbody tr[data-row]").first.wait_for()
    page.get_by_role("button", name="Score").focus()
    page.keyboard.press("Enter")
    expect(page.locator("th.c-score")).to_have_attribute("aria-sort", "descending")
    first = page.locator(".list tbody tr[data-row]").first.locator("td").nth(3)
    expect(first).to_have_text("1,100")
    page.keyboard.press("Enter")
    expect(page.locator("th.c-score")).to_have_attribute("aria-sort", "ascending")


def test_levels_say_how_far_they_agree(looker: Looker, shown: Shown) -> None:
    looker.open(shown.address, "#/study/one")
    card = looker.page.locator(
        "section", has=looker.page.get_by_role("heading", name="Levels of fidelity")
    )
    expect(card.locator("tbody tr").first).to_contain_text("0.83")
    expect(card.locator("tbody tr").first).to_contain_text("trusted: it agrees")


def test_who_has_no_token_is_told_how_to_come_in(looker: Looker, shown: Shown) -> None:
    looker.expected.append("401")
    page = looker.page
    page.goto(shown.address.split("#")[0])
    expect(page.get_by_role("heading", name="This page is its owner's alone")).to_be_visible()
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("alert").last).to_contain_text("token")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("heading", name="Studies")).to_be_visible()
    assert TOKEN not in page.url
    cookie = next(c for c in page.context.cookies() if c["name"] == "tuner-token")
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"


def test_the_address_with_the_token_is_not_kept(looker: Looker, shown: Shown) -> None:
    looker.open(shown.address)
    assert TOKEN not in looker.page.url
    assert looker.page.evaluate("document.cookie") == ""
