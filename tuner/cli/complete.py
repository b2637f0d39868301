"""Completion of names in the shell; it must be quick, and silent when it knows nothing."""

from __future__ import annotations

import typer


def study_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of studies in the state folder that begin so."""
    import sqlite3
    from contextlib import closing
    from pathlib import Path

    from tuner.paths import state_dir

    asked = context.find_root().params.get("state")
    file = state_dir(Path(asked) if asked else None) / "ledger.sqlite"
    if not file.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=1)) as db:
            rows = db.execute("SELECT name FROM studies ORDER BY id DESC").fetchall()
    except sqlite3.Error:
        return []
    return [name for (name,) in rows if name.startswith(incomplete)]
