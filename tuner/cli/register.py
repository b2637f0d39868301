"""Which commands there are. Each lives in a thin file of its own and imports what is heavy itself."""

from __future__ import annotations

import typer


def commands(app: typer.Typer) -> None:
    """Add every command to the application."""
    from tuner.cli import (
        bench,
        clean,
        compare,
        daemon,
        dashboard,
        doctor,
        engine,
        export,
        fidelity,
        init,
        inspect,
        kernels,
        profile,
        run,
        score,
        surface,
        validate,
        verdict,
    )

    app.command()(init.init)
    app.command()(run.run)
    app.command()(run.resume)
    app.command()(daemon.attach)
    app.command()(daemon.stop)
    app.command()(daemon.pause)
    app.command()(daemon.queue)
    app.command()(daemon.page)
    app.command()(dashboard.dashboard)
    app.command()(validate.validate)
    app.command()(inspect.status)
    app.command()(inspect.trials)
    app.command()(inspect.show)
    app.command()(inspect.logs)
    app.command()(export.export)
    app.command()(export.report)
    app.command()(compare.compare)
    app.command()(profile.profile)
    app.command()(doctor.doctor)
    app.command()(clean.clean)
    app.command("verdict")(verdict.verdict_command)
    app.command()(bench.bench)
    app.command("score")(score.score)
    app.command()(kernels.kernels)
    app.command("fidelity")(fidelity.fidelity_command)
    app.command()(surface.surface)
    app.add_typer(engine.app, name="engine")
    app.add_typer(daemon.app, name="daemon")
