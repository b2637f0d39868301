"""``tuner fidelity``: whether a cheap stand-in orders configurations as the real thing does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tuner.fidelity.table import RawTable


def fidelity_command(
    context: typer.Context,
    proxy: Annotated[
        str,
        typer.Argument(
            metavar="A", help="The stand-in: a .csv or .jsonl table; with --levels, a study."
        ),
    ],
    real: Annotated[
        str | None,
        typer.Argument(metavar="B", help="The real thing: a .csv or .jsonl table."),
    ] = None,
    rule: Annotated[
        Path | None,
        typer.Option(help="The rule, written before the figures were seen.", metavar="FILE"),
    ] = None,
    levels: Annotated[
        tuple[str, str] | None,
        typer.Option(
            help="Two levels or workloads of the study A: the stand-in, and the real thing.",
            metavar="LEVEL LEVEL",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown for a report.")
    ] = False,
) -> None:
    """Say whether A orders configurations as B does, and why.

    The answer is supported, rejected or indeterminate.

    A and B are two tables; or A is a study, of which --levels names two levels. Exits 0 whatever the
    answer is: the question was answered.

    Example: tuner fidelity my-study --levels brief real --rule rule.yaml
    """
    from tuner.errors import UserError
    from tuner.fidelity import render
    from tuner.fidelity.compare import compare
    from tuner.fidelity.rule import read_rule

    if as_json and markdown:
        raise UserError("the output is JSON or Markdown, not both", mend="leave one of the two out")
    if rule is None:
        raise UserError(
            "without a rule there is no answer",
            mend="write one beforehand and give it: --rule FILE; docs/explanation/fidelity.md shows one",
        )
    read, source = read_rule(rule)
    found = compare(*_tables(context, proxy, real, levels), read, source)
    if as_json:
        typer.echo(json.dumps(render.as_json(found), indent=2, ensure_ascii=False))
    else:
        typer.echo(render.as_markdown(found) if markdown else render.as_text(found), nl=False)


def _tables(
    context: typer.Context, proxy: str, real: str | None, levels: tuple[str, str] | None
) -> tuple[RawTable, RawTable]:
    from tuner.errors import UserError
    from tuner.fidelity.table import level_table, read_table

    if (real is None) == (levels is None):
        raise UserError(
            "there must be two things to compare",
            mend="give two tables, or a study with --levels LEVEL LEVEL",
        )
    if levels is None:
        return read_table(Path(proxy)), read_table(Path(real or ""))
    from tuner.store.ledger import Ledger

    with Ledger(context.obj, write=False) as ledger:
        trials = ledger.trials(ledger.study(proxy).id)
    stand_in, whole = (level_table(trials, proxy, name) for name in levels)
    return stand_in, whole
