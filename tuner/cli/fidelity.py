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
        str, typer.Argument(metavar="A", help="The stand-in: a .csv or .jsonl table, or a level.")
    ],
    real: Annotated[
        str, typer.Argument(metavar="B", help="The real thing: a .csv or .jsonl table, or a level.")
    ],
    rule: Annotated[
        Path, typer.Option(help="The rule, written before the figures were seen.", metavar="FILE")
    ],
    study: Annotated[
        str | None,
        typer.Option(
            help="Take A and B as two levels or workloads of this study.", metavar="STUDY"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown for a report.")
    ] = False,
) -> None:
    """Say whether A orders configurations as B does: supported, rejected or indeterminate, and why.

    Exits 0 whatever the answer is: the question was answered.

    Example: tuner fidelity simulated.csv measured.jsonl --rule rule.yaml --json
    """
    from tuner.errors import UserError
    from tuner.fidelity import render
    from tuner.fidelity.compare import compare
    from tuner.fidelity.rule import read_rule

    if as_json and markdown:
        raise UserError("the output is JSON or Markdown, not both", mend="leave one of the two out")
    read, source = read_rule(rule)
    found = compare(_table(context, proxy, study), _table(context, real, study), read, source)
    if as_json:
        typer.echo(json.dumps(render.as_json(found), indent=2, ensure_ascii=False))
    else:
        typer.echo(render.as_markdown(found) if markdown else render.as_text(found), nl=False)


def _table(context: typer.Context, name: str, study: str | None) -> RawTable:
    from tuner.fidelity.table import level_table, read_table

    if study is None:
        return read_table(Path(name))
    from tuner.store.ledger import Ledger

    with Ledger(context.obj, write=False) as ledger:
        return level_table(ledger.trials(ledger.study(study).id), study, name)
