from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.report.conftest import HOSTILE
from tests.report.test_markdown import Reader
from tuner.report.html import html
from tuner.report.material import Material
from tuner.report.story import story

_DRAWN = {"svg", "rect", "line", "path", "circle", "text", "title"}
_TAGS = _DRAWN | {
    "html",
    "head",
    "meta",
    "style",
    "body",
    "nav",
    "ol",
    "ul",
    "li",
    "a",
    "main",
    "h1",
    "h2",
    "h3",
    "p",
    "strong",
    "code",
    "div",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "pre",
    "figure",
    "figcaption",
    "footer",
}


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


@pytest.mark.parametrize("text", HOSTILE)
def test_foreign_text_is_shown_and_does_nothing(
    harmful: Callable[[str], Material], text: str
) -> None:
    calm = read(html(story(harmful("calm")), title="calm", made="now"))
    found = read(html(story(harmful(text)), title=text, made="now"))
    assert found.tags == calm.tags, "a text has become an element"
    assert set(found.tags) <= _TAGS
    assert all(link.startswith("#") for link in found.links)


def test_it_needs_nothing_from_elsewhere(went_well: Material) -> None:
    page = html(story(went_well), title="Study tests", made="now")
    assert "default-src 'none'" in page
    assert "<script" not in page
    outside = page.replace("http://www.w3.org/2000/svg", "")
    assert "http://" not in outside
    assert "https://" not in outside
    assert "url(" not in page


def test_the_same_study_gives_the_same_bytes(went_well: Material) -> None:
    one, two = (html(story(went_well), title="t", made="now") for _ in range(2))
    assert one == two


def test_what_a_log_says_is_in_the_proof(went_well: Material) -> None:
    page = html(story(went_well), title="t", made="now")
    assert "7: Killed process 123" in "".join(read(page).text)
