"""``tuner dashboard``: Optuna's own page on a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.arguments import StudyName


def dashboard(
    context: typer.Context,
    study: StudyName,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 for any.")] = 0,
    browser: Annotated[bool, typer.Option("--browser", help="Open it in the browser.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the copy into this SQLite file, and show nothing.", metavar="FILE"
        ),
    ] = None,
) -> None:
    """Show a copy of a study with optuna-dashboard, until Ctrl-C.

    This needs the extra `dashboard`.

    Example: tuner dashboard local-cpu --browser
    """
    from tuner.search.dashboard import page_server
    from tuner.store.ledger import Ledger
    from tuner.trial.copying import optuna_copy

    with Ledger(context.obj, write=False) as ledger:
        storage = optuna_copy(ledger, ledger.study(study), out)
    if out is not None:
        typer.echo(str(out))
        return
    server = page_server(storage, port)
    address = f"http://127.0.0.1:{server.server_port}/"
    typer.echo(f"{address}   a copy as of now; Ctrl-C ends it")
    if browser:
        typer.launch(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        typer.echo("")
    finally:
        server.server_close()
