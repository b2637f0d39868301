"""Thousands of trials stay smooth: nothing keeps the page from answering for 200 ms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Looker, Shown
from tests.fakes.ledgers import add_trial, fill_large
from tuner.store.ledger import Ledger

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(180)]

TRIALS = 1000
LONGEST = 200
"""Milliseconds that the page may take for one thing: longer is felt."""
TRIES = 3
"""On a machine that others use, one slow try says nothing; three do."""

_WATCH = """() => {
  window.longest = 0;
  window.watching?.disconnect();
  window.watching = new PerformanceObserver((list) => {
    for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
  });
  window.watching.observe({ entryTypes: ["longtask"] });
}"""


@pytest.fixture
def ledger(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Ledger]:
    with Ledger(tmp_path / "state", write=True) as one:
        fill_large(one, "large", trials=getattr(request, "param", TRIALS))
        one.set_status(one.study("large").id, "running")
        yield one


@pytest.fixture
def shown(ledger: Ledger, tmp_path: Path) -> Iterator[Shown]:
    one = Shown(tmp_path / "state")
    yield one
    one.close()


def longest(page: Page) -> float:
    page.wait_for_timeout(200)
    found: float = page.evaluate("window.longest")
    return found


def walk(looker: Looker, shown: Shown, ledger: Ledger) -> dict[str, float]:
    """Do what people do with a large study; the longest task of each step in milliseconds."""
    page, found = looker.page, {}
    page.evaluate(_WATCH)
    looker.go("#/study/large")
    rows = page.locator(".list tbody tr[data-row]")
    expect(rows.first).to_be_visible()
    page.wait_for_timeout(800)  # importance comes later
    found["open"] = longest(page)

    page.evaluate(_WATCH)
    box = page.locator(".list")
    for step in range(30):
        box.evaluate("(box, top) => { box.scrollTop = top }", step * 900)
        page.wait_for_timeout(30)
    found["scroll"] = longest(page)

    page.evaluate(_WATCH)
    page.get_by_role("button", name="Score").click()
    page.get_by_label("Find").press_sequentially("seqs=4")
    page.get_by_label("Find").fill("")
    found["sort and find"] = longest(page)

    page.evaluate(_WATCH)
    row = ledger.study("large")
    for _ in range(10):
        number = add_trial(ledger, row)
        shown.hint()
        page.wait_for_timeout(150)
    expect(page.get_by_text(f"{number + 1} trials")).to_be_visible(timeout=30_000)
    found["ten more"] = longest(page)

    page.evaluate(_WATCH)
    chart = page.locator(".chart .u-over").bounding_box()
    assert chart is not None
    for step in range(20):
        page.mouse.move(chart["x"] + step * chart["width"] / 20, chart["y"] + chart["height"] / 2)
    found["pointer"] = longest(page)
    return found


@pytest.mark.parametrize("ledger", [TRIALS, 10 * TRIALS], indirect=True)
def test_thousands_of_trials_stay_smooth(
    looker: Looker, shown: Shown, ledger: Ledger, request: pytest.FixtureRequest
) -> None:
    looker.open(shown.address)
    tries = []
    for _ in range(TRIES):
        tries.append(walk(looker, shown, ledger))
        print("longest tasks, ms:", tries[-1])
        if max(tries[-1].values()) < LONGEST:
            break
        looker.go("#/")
    assert min(max(one.values()) for one in tries) < LONGEST, tries
    looker.picture(f"study-{request.node.callspec.params['ledger']}")


def test_only_the_rows_that_are_seen_are_there(looker: Looker, shown: Shown) -> None:
    looker.open(shown.address, "#/study/large")
    page = looker.page
    rows = page.locator(".list tbody tr[data-row]")
    expect(rows.first).to_be_visible()
    assert rows.count() < 60
    expect(page.get_by_text("1000 trials")).to_be_visible()
    page.locator(".list").evaluate("box => { box.scrollTop = box.scrollHeight }")
    expect(page.locator(f'.list tbody tr[data-row="{TRIALS - 1}"]')).to_be_visible()
