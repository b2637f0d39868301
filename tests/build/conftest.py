"""Small recipes that build in a fraction of a second: no package is installed."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

HEAD = f"""\
format: 1
name: fake
about: a recipe for tests
base:
  venv:
    pythons: ["{sys.version_info.major}.{sys.version_info.minor}"]
    disk: 10MiB
server: ["{{python}}", "-m", "http.server"]
env:
  FAKE_SERVING: "1"
"""


@pytest.fixture
def make_recipe(tmp_path: Path) -> Callable[..., Path]:
    """Writes ``recipe.yaml`` (the usual head and what is given) and other files; returns the folder."""

    def make(
        body: str = "", *, head: str = HEAD, files: dict[str, str | bytes] | None = None
    ) -> Path:
        folder = tmp_path / "fake-recipe"
        folder.mkdir(exist_ok=True)
        (folder / "recipe.yaml").write_text(head + textwrap.dedent(body), encoding="utf-8")
        for name, content in (files or {}).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return folder

    return make


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
