"""Completion of names in the shell; it must be quick, and silent when it knows nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence


def study_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of studies in the state folder that begin so, the newest first."""
    rows = _asked(context, "SELECT name FROM studies ORDER BY id DESC")
    return [name for (name,) in rows if name.startswith(incomplete)]


def trial_numbers(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Numbers of the named study's trials that begin so, the newest first, with how each ended."""
    # Behind an option whose value is being written the arguments are not sorted yet; the study is the first.
    study = context.params.get("study") or next(iter(context.args), None)
    rows = _asked(
        context,
        "SELECT number, COALESCE(verdict, stage), score FROM trials"
        " WHERE study=(SELECT id FROM studies WHERE name=?) ORDER BY number DESC LIMIT 1000",
        (study,),
    )
    return [
        (str(number), end if score is None else f"{end}, score {score:,.0f}")
        for number, end, score in rows
        if str(number).startswith(incomplete)
    ]


def recipes(incomplete: str) -> list[str]:
    """Names of the recipes that begin so."""
    from tuner.build import recipe_names

    return [name for name in recipe_names() if name.startswith(incomplete)]


def _asked(context: typer.Context, question: str, given: Sequence[Any] = ()) -> list[Any]:
    """What the ledger answers; nothing where there is none, or where it is in other hands."""
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
            return db.execute(question, given).fetchall()
    except sqlite3.Error:
        return []
