"""``python -m tuner``: the same as the command ``tuner``."""

from __future__ import annotations

from tuner.cli.main import run

run()
