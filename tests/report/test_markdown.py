from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.report.conftest import HOSTILE
from tuner.report.blocks import Block, Bullets, Code, Heading, code, paragraph, strong, table, words
from tuner.report.markdown import markdown
from tuner.report.material import Material
from tuner.report.story import story

_TAGS = {
    "h1",
    "h2",
    "h3",
    "p",
    "strong",
    "code",
    "ul",
    "li",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "pre",
    "img",
}


class Reader(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def rendered(text: str) -> Reader:
    """What a viewer of GitHub's Markdown, HTML allowed, makes of a text."""
    reader = Reader()
    reader.feed(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))
    reader.close()
    return reader


@given(st.text(), st.text(alphabet="`*_|<>[]()#-+=~!&\\\n 1.a"))
def test_no_text_becomes_markup(one: str, two: str) -> None:
    blocks: list[Block] = [
        Heading(one or "x"),
        paragraph(two, strong(one), code(two)),
        Bullets((words(two),)),
        table(("a", one), [(two, code(two)), (one, code(one))]),
        Code(two),
    ]
    found = rendered(markdown(blocks))
    assert set(found.tags) <= _TAGS
    assert found.tags.count("tr") == 3
    assert found.tags.count("td") == 4
    assert found.tags.count("pre") == 1
    assert not found.links


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_study(harmful: Callable[[str], Material], text: str) -> None:
    found = rendered(markdown(story(harmful(text))))
    assert set(found.tags) <= _TAGS
    assert all(link.startswith("report-") and link.endswith(".svg") for link in found.links)


def test_code_keeps_its_bars_and_backticks() -> None:
    (cell,) = [
        t for t in rendered(markdown([table(("a",), [(code("x|y `z`"),)])])).text if "x" in t
    ]
    assert cell == "x|y `z`"
