"""A report as one HTML file: no script, nothing from elsewhere, light and dark, on screen and paper.

The file forbids itself scripts and requests by its own policy, so that even a mistake here could
not make an engine's text do anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from tuner.report.blocks import Block, Bullets, Code, Heading, Paragraph, Picture, Table
from tuner.report.svg import stylesheet
from tuner.report.text import clean, one_line


def html(blocks: Sequence[Block], *, title: str, made: str) -> str:
    """The page.

    Args:
        blocks: The report.
        title: What the browser's window is called.
        made: When and by what it was made, in words.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(stylesheet),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["clean"] = clean
    # Of all that goes into the page these two alone are markup: the room's own style sheets, and
    # the pictures, which escape what they are given.
    style = Markup(stylesheet("report.css") + stylesheet("picture.css"))  # noqa: S704
    page = environment.get_template("report.html.j2")
    return page.render(
        title=one_line(title),
        made=made,
        style=style,
        contents=_contents(blocks),
        blocks=[_shown(block, place) for place, block in enumerate(blocks)],
    )


def _contents(blocks: Sequence[Block]) -> list[tuple[str, str]]:
    return [
        (_anchor(b, place), b.text)
        for place, b in enumerate(blocks)
        if isinstance(b, Heading) and b.level == 2
    ]


def _shown(block: Block, place: int) -> dict[str, Any]:
    match block:
        case Heading():
            return {"kind": "heading", "block": block, "anchor": _anchor(block, place)}
        case Paragraph():
            return {"kind": "paragraph", "block": block}
        case Bullets():
            return {"kind": "bullets", "block": block}
        case Table():
            return {"kind": "table", "block": block}
        case Code():
            return {"kind": "code", "text": clean(block.text, longest=200_000)}
        case Picture():
            svg = Markup(block.svg.inline(block.says))  # noqa: S704  (see above)
            return {"kind": "picture", "svg": svg, "says": block.says}


def _anchor(heading: Heading, place: int) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", heading.text.lower()).strip("-")
    return f"{plain or 'part'}-{place}"
