"""The whole report as blocks: the conclusion first, then everything it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.report.blocks import Block, Picture
from tuner.report.material import Material
from tuner.report.sections.conclusion import conclusion, side_by_side
from tuner.report.sections.hints import hints
from tuner.report.sections.levels import levels, proxy
from tuner.report.sections.load import load, machine, quality
from tuner.report.sections.profile import profiles
from tuner.report.sections.question import environment, question
from tuner.report.sections.record import course, every_trial, failures, reproduce
from tuner.report.sections.search import inert, noise, search


def story(material: Material, command: Mapping[str, Any] | None = None) -> tuple[Block, ...]:
    """All blocks of a report, in order.

    Args:
        material: What it is made from.
        command: The command of the deployment that was chosen, with its variables.
    """
    return (
        *conclusion(material),
        *side_by_side(material),
        *search(material),
        *levels(material),
        *proxy(material),
        *inert(material),
        *load(material),
        *machine(material),
        *profiles(material),
        *quality(material),
        *noise(material),
        *failures(material),
        *hints(material),
        *question(material),
        *environment(material),
        *every_trial(material),
        *course(material),
        *reproduce(material, command),
    )


def pictures(blocks: tuple[Block, ...]) -> dict[str, str]:
    """The pictures of a report as files, by name."""
    return {picture_file(b): b.svg.file(b.says) for b in blocks if isinstance(b, Picture)}


def picture_file(picture: Picture) -> str:
    """The name of a picture's file, beside the report."""
    return f"report-{picture.name}.svg"
