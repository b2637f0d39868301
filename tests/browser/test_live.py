"""A study that runs is shown as it goes on, and a newcomer gets from nothing to an export by the page alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Page, expect

from tests.browser.conftest import Looker
from tests.daemon.conftest import Keeper, body, until
from tests.fakes.world import World

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.xdist_group("engines"),
    pytest.mark.timeout(240),
]

FEW: dict[str, Any] = {
    "budget": {"trials": 4},
    "search": {"sampler": "random", "finalists": {"count": 0}},
    "recipe_env": {"FAKE_SPEED": "0.4"},  # slow enough to be looked at
}


def test_a_running_study_updates_without_reload(
    keeper: Keeper, world: Callable[..., World], looker: Looker
) -> None:
    with keeper.start() as client:
        address = client.post("/v1/page")["said"]
        page = looker.page
        looker.open(address)
        page.evaluate("window.sameDocument = true")
        expect(page.get_by_text("There is no study yet")).to_be_visible()

        client.post("/v1/studies", body(world("alive", **FEW)))
        page.get_by_role("link", name="alive").click()  # it came by itself

        expect(page.get_by_role("heading", name="alive")).to_be_visible()
        expect(page.locator("header .live")).to_be_visible()
        now = page.locator("section", has=page.get_by_role("heading", name="Now"))
        expect(now).to_contain_text("Trial 0", timeout=60_000)
        expect(now).to_contain_text("start", timeout=60_000)
        machine = page.get_by_role("img", name="Memory, the last minutes")
        expect(machine).to_be_visible(timeout=60_000)
        expect(machine.locator("canvas")).to_be_visible()
        looker.picture("study-running")
        rows = page.locator(".list tbody tr[data-row]")
        expect(rows.first).to_contain_text("healthy", timeout=60_000)
        seen = rows.count()
        expect(page.locator(".status.finished")).to_be_visible(timeout=120_000)
        found = until(client, "alive", "finished")
        expect(rows).to_have_count(found["trials"])
        assert found["trials"] > seen  # more came while it was looked at
        expect(machine).to_be_hidden()
        expect(page.locator(".happenings")).to_contain_text("the study is finished")
        assert page.evaluate("window.sameDocument") is True
        looker.picture("study-finished")


def test_a_trial_is_shown_while_it_runs(
    keeper: Keeper, world: Callable[..., World], looker: Looker
) -> None:
    with keeper.start() as client:
        looker.open(client.post("/v1/page")["said"])
        client.post("/v1/studies", body(world("alive", **FEW)))
        page = looker.page
        looker.page.get_by_role("link", name="alive").click()
        page.locator(".list tbody tr[data-row] a").first.click(timeout=60_000)
        expect(page.get_by_role("heading", name="Trial 0")).to_be_visible()
        expect(page.locator(".status")).to_contain_text("healthy", timeout=60_000)
        expect(page.locator(".log li").first).to_be_visible()
        expect(page.get_by_role("heading", name="By length of the prompt")).to_be_visible()
        expect(page.get_by_role("img", name="Memory")).to_be_visible()
        looker.picture("trial-finished")
        until(client, "alive", "finished")


def test_pause_and_go_on(keeper: Keeper, world: Callable[..., World], looker: Looker) -> None:
    with keeper.start() as client:
        looker.open(client.post("/v1/page")["said"])
        client.post("/v1/studies", body(world("alive", **FEW)))
        page = looker.page
        page.get_by_role("link", name="alive").click()
        page.get_by_role("button", name="Pause").click(timeout=60_000)
        expect(page.locator(".status.paused")).to_be_visible(timeout=60_000)
        page.get_by_role("button", name="Give it more").click()
        page.get_by_label("Most trials, the baseline included").fill("5")
        page.locator("dialog").get_by_role("button", name="Go on").click()
        expect(page.locator(".status.finished")).to_be_visible(timeout=120_000)
        assert until(client, "alive", "finished")["limits"]["trials"] == 5


def test_a_newcomer_by_the_page_alone(
    keeper: Keeper, world: Callable[..., World], looker: Looker
) -> None:
    """From an empty page to the exported file: nothing but what the page offers is used."""
    one = world("first", **FEW)
    space = yaml.safe_load(one.space.read_text())
    space["engine"]["model"]["path"] = str(one.folder / "model")
    with keeper.start() as client:
        looker.open(client.post("/v1/page")["said"])
        page = looker.page
        looker.picture("newcomer-1-nothing")
        page.get_by_role("link", name="Begin one").click()
        page.get_by_label("Begin with").select_option("local_cpu")
        expect(page.get_by_label("Text", exact=True)).to_have_value(default_space())
        looker.picture("newcomer-2-space")

        page.get_by_label("Text", exact=True).fill("study: first\nparameters: 5\n")
        page.get_by_role("button", name="Start the study").click()
        expect(page.get_by_role("alert").last).to_contain_text("search_space.yaml")
        looker.expected.append("422")  # the browser notes what was refused
        looker.picture("newcomer-3-refused")

        page.get_by_label("Text", exact=True).fill(yaml.safe_dump(space))
        page.get_by_role("button", name="Start the study").click()
        expect(page.get_by_role("heading", name="first")).to_be_visible()
        expect(page.locator(".status.finished")).to_be_visible(timeout=120_000)
        for form in ("computility-run", "shell"):
            name, text = exported(page, form)
            assert text == client.get("/v1/studies/first/export", format=form)["files"][name]
        looker.picture("newcomer-4-finished")

        with page.context.expect_page() as opened:
            page.get_by_role("link", name="Report").click()
        report = opened.value
        report.wait_for_load_state()
        expect(report.locator("h1")).to_contain_text("first")
        report.close()


def exported(page: Page, form: str) -> tuple[str, str]:
    """The first file of the export as the page saves it: its name and its text."""
    page.get_by_role("button", name="Download the export").click()
    page.get_by_label("Form").select_option(form)
    with page.expect_download() as coming:
        page.locator("dialog").get_by_role("button", name="Download").click()
    expect(page.locator("dialog")).to_have_count(0)
    return coming.value.suggested_filename, coming.value.path().read_text()


def default_space() -> str:
    """The search space to begin with, as it comes with tuner."""
    folder = Path(__file__).parents[2] / "search_spaces"
    return (folder / "local_cpu.yaml").read_text()
