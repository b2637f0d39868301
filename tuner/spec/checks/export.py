"""What is written into the files that people deploy: no secrets, and no code that nobody allowed."""

from __future__ import annotations

import re

from tuner.spec.checks.engine import ALLOW
from tuner.spec.document import SpaceDocument
from tuner.spec.flags import env_loads_code, names_secret
from tuner.spec.strict_yaml import Document

_PLACEHOLDER = re.compile(r"\{[^{}]*\}")


def check_export(document: SpaceDocument, source: Document) -> None:
    """Check what an export adds to a deployment.

    Raises:
        SpaceError: When a file for everybody to read would hold a secret, a variable loads code that
            the search space does not allow, a path would be read as a flag, or a placeholder is unknown.
    """
    export = document.export
    for name in export.env:
        place = ("export", "env", name)
        if names_secret(name):
            raise source.error(
                place,
                f"{name} seems to hold a secret, which does not belong into an exported file",
                "set it where the model is deployed",
            )
        if not document.engine.allow_code and env_loads_code(name):
            raise source.error(
                place, f"{name} makes processes load code, or opens the server", ALLOW
            )
    for found in _PLACEHOLDER.findall(export.dir):
        if found != "{study}":
            raise source.error(
                ("export", "dir"), f"{found} stands for nothing here", "only {study} does"
            )
    for key, value in (("python", export.python), ("model_path", export.model_path)):
        if value is not None and value.startswith("-"):
            raise source.error(
                ("export", key), f"{value} would be read as a flag", "write it with ./ in front"
            )
