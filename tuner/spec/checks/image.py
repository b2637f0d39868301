"""A parameter that chooses the engine's image: where that can be, and how an image is written."""

from __future__ import annotations

import re

from tuner.spec.document import SpaceDocument
from tuner.spec.outcomes import outcomes
from tuner.spec.strict_yaml import Document, Place

_IMAGE = re.compile(r"[A-Za-z0-9][\w.:/@-]{0,254}", re.ASCII)


def check_image(document: SpaceDocument, source: Document) -> None:
    """Check what chooses an image.

    Raises:
        SpaceError: When engines are processes, when the recipe is chosen, too, so that nobody could
            say which of its images belongs to which, or when a text is no image.
    """
    recipe = next((name for _, name in _choosing(document, "recipe")), None)
    for section, name in _choosing(document, "image"):
        place: Place = (section, name, "setting")
        if document.engine.launch != "docker":
            raise source.error(
                place, f"{name} chooses an image, and engines are processes", "write launch: docker"
            )
        if recipe is not None:
            raise source.error(
                place,
                f"{name} chooses the image and {recipe} the recipe",
                "write a recipe of your own for each image, and choose among the recipes",
            )
        key = "choices" if section == "parameters" else "value"
        for text in outcomes(document, name):
            if not _IMAGE.fullmatch(text):
                raise source.error(
                    (section, name, key),
                    f"{text!r} is no image",
                    "write NAME:TAG, or NAME@sha256:DIGEST",
                )


def _choosing(document: SpaceDocument, setting: str) -> list[tuple[str, str]]:
    """The parameters and computed values that choose a part of the engine, with their sections."""
    found = [("parameters", n) for n, p in document.parameters.items() if p.setting == setting]
    return found + [("computed", n) for n, c in document.computed.items() if c.setting == setting]
