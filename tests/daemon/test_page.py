"""The page's files: what they say agrees with the rest of tuner, and they hold nothing that is not theirs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from tests.daemon.test_api import Asker
from tuner.daemon.app import PAGE, make_app
from tuner.daemon.books import Books
from tuner.daemon.hub import Hub
from tuner.daemon.machine import Machine
from tuner.daemon.service import Service
from tuner.export.formats import Form
from tuner.store.ledger import Ledger
from tuner.store.stages import Stage
from tuner.verdict.families import Family

SOURCE = PAGE.parents[1]
SCRIPTS = sorted((PAGE / "js").rglob("*.js"))
WORDS = (PAGE / "js" / "words.js").read_text()
SAID = re.compile(
    r"(?:voice\.say\(|_event\(\s*db, \S+, |note\(\s*\S+, )\s*\"([a-z_]+)\"", re.MULTILINE
)


@pytest.fixture
def tcp(tmp_path: Path) -> Asker:
    Ledger(tmp_path / "state", write=True).close()
    service = Service(Books(tmp_path / "state", write=False), Hub(), Machine())
    return Asker(make_app(service, token="t" * 43), "http://127.0.0.1:8000")


def block(name: str) -> str:
    found = re.search(rf"export const {name} = \{{\n(.*?)\n\}};", WORDS, re.DOTALL)
    assert found is not None
    return found[1]


def test_families_are_called_what_they_are_called_elsewhere() -> None:
    entries = dict(re.findall(r"^  (\w+): \{ label: \"(.*?)\"", block("FAMILIES"), re.MULTILINE))
    assert entries == {str(family): family.label for family in Family}


def test_each_family_has_a_mark_of_its_own() -> None:
    marks = re.findall(r"mark: \"(.)\"", block("FAMILIES"))
    assert len(set(marks)) == len(marks) == len(Family)
    style = (PAGE / "style.css").read_text()
    for family in Family:
        assert f".{family} > i {{ color: var(--{family}); }}" in style
        assert len(re.findall(rf"--{family}: #[0-9a-f]{{6}};", style)) == 2  # light and dark


def test_stages_stand_in_the_order_of_a_trial() -> None:
    assert re.findall(r"^  (\w+):", block("STAGES"), re.MULTILINE) == [str(s) for s in Stage]


def test_every_kind_of_event_is_heard() -> None:
    found = re.search(r"const KINDS = \[(.*?)\];", (PAGE / "js" / "api.js").read_text(), re.DOTALL)
    assert found is not None
    heard = set(re.findall(r"\"(\w+)\"", found[1]))
    said = {
        kind
        for room in ("trial", "store", "daemon")
        for file in (SOURCE / room).glob("*.py")
        for kind in SAID.findall(file.read_text())
    }
    assert {
        "plan",
        "build",
        "sample",
        "migrated",
        "note",
    } <= said  # it was looked for in the right way
    assert said <= heard, "a browser hears only the kinds that api.js names in KINDS"


def test_nothing_reads_markup() -> None:
    for file in SCRIPTS:
        text = file.read_text()
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, f"{file.name}: {word}"


def test_every_module_is_used_and_of_a_readable_size() -> None:
    for file in SCRIPTS:
        text = file.read_text()
        assert len(text.splitlines()) <= 300, file.name
        for wanted in re.findall(r"from \"(\..*?)\"", text):
            assert (file.parent / wanted).is_file(), f"{file.name}: {wanted}"
    imported = {
        (file.parent / wanted).resolve()
        for file in SCRIPTS
        for wanted in re.findall(r"from \"(\..*?)\"", file.read_text())
    }
    assert set(SCRIPTS) - imported == {PAGE / "js" / "main.js"}


def test_what_others_wrote_has_its_licence_beside_it() -> None:
    for folder in (PAGE / "vendor").iterdir():
        if folder.is_dir():
            assert (folder / "LICENSE").is_file()
            assert folder.name in (PAGE / "vendor" / "README.md").read_text()


def test_the_page_asks_nobody_else(tcp: Asker) -> None:
    for file in [*SCRIPTS, PAGE / "style.css", PAGE / "index.html"]:
        others = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", file.read_text())
        assert [o for o in others if "w3.org/2000/svg" not in o and "www.w3.org" not in o] == []
    answer = tcp.get("/")
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script>" not in answer.text
    assert " style=" not in answer.text


def test_its_files_are_served_to_who_has_no_token_and_checked_each_time(tcp: Asker) -> None:
    for file in [*SCRIPTS, PAGE / "style.css", PAGE / "vendor" / "uplot" / "uPlot.esm.js"]:
        answer = tcp.get(f"/{file.relative_to(PAGE).as_posix()}")
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-cache"  # a newer tuner has a newer page
        kind = "text/css" if file.suffix == ".css" else "text/javascript"
        assert answer.headers["content-type"].startswith(kind)
    assert tcp.get("/v1/studies").status_code == 401
    assert tcp.get("/js/none.js").status_code == 404


def test_every_form_of_an_export_is_offered() -> None:
    text = (PAGE / "js" / "parts" / "actions.js").read_text()
    found = re.search(r"const FORMS = \[(.*?)\n\];", text, re.DOTALL)
    assert found is not None
    assert re.findall(r"\[\"([\w-]+)\"", found[1]) == list(get_args(Form))
