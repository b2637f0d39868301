"""``tuner init``: write a first search space."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.complete import recipes

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from tuner.build import Recipe
    from tuner.telemetry.hardware import Hardware


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.", metavar="FILE")] = Path(
        "search_space.yaml"
    ),
    recipe: Annotated[
        str | None,
        typer.Option(
            help="The engine's recipe. Default: cuda where there are NVIDIA devices, else cpu.",
            autocompletion=recipes,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="The model's folder; without it a tiny one is made.", metavar="DIR"),
    ] = None,
    study: Annotated[
        str | None, typer.Option(help="The study's name. Default: from the model and the recipe.")
    ] = None,
    ask: Annotated[
        bool | None,
        typer.Option(
            "--ask/--no-ask",
            help="Ask the engine itself for its flags, which builds it if it is new. Default: where it is built.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a first search space for this machine, with comments.

    It holds what the engine knows and what the model allows.

    Example: tuner init my_space.yaml --recipe cuda --model /models/Qwen3-30B-A3B
    """
    import re

    from tuner.build import default_launch, foresee, load_recipe
    from tuner.errors import UserError
    from tuner.files import write_atomic
    from tuner.memory.config import read_config
    from tuner.spec import parse_space
    from tuner.trial.admission import check_targets
    from tuner.trial.draft import Ground, draft

    if file.exists() and not force:
        raise UserError(
            "this file is there already", file=file, mend="name another, or use --force"
        )
    hardware = _hardware()
    name = recipe or ("cuda" if hardware.telemetry == "nvml" else "cpu")
    loaded = load_recipe(name)
    launch = default_launch(loaded)
    on_devices = _uses_devices(loaded, hardware)
    asked = foresee(loaded, launch=launch).built if ask is None else ask
    flags = _ask(loaded, model) if asked else loaded.flags()
    words = f"{model.name if model else 'tiny'}-{loaded.name}".lower()
    ground = Ground(
        study=study or re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:60],
        recipe=str(Path(name).resolve()) if "/" in name else name,
        launch=launch,
        model=str(model.resolve()) if model else None,
        config=read_config(model) if model else None,
        hardware=hardware,
        on_devices=on_devices,
        flags=flags,
        variables=_variables(loaded, on_devices=on_devices),
    )
    text = draft(ground)
    check_targets(
        parse_space(text, file.resolve(), any_version=True)
    )  # a draft that is refused is a defect of ours
    try:
        write_atomic(file, text)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", file=file) from error
    if not asked:
        listed = "" if flags is None else ", the recipe's own list of flags is taken"
        said = f"the engine is not asked{listed}; --ask asks it, and builds it first"
        typer.echo(said, err=True)
    typer.echo(f"{file}: read it, change it, then: tuner validate {file}, tuner run {file}")


def _hardware() -> Hardware:
    """This machine."""
    from tuner.telemetry.detect import detect
    from tuner.telemetry.hardware import detect_hardware

    source = detect().source
    try:
        return detect_hardware(source)
    finally:
        source.close()


def _uses_devices(recipe: Recipe, hardware: Hardware) -> bool:
    """Whether the recipe's engine uses devices: by what it says, or by what is here where it takes what there is."""
    container = recipe.spec.container
    if container.gpus == "auto" and not container.devices:
        return bool(hardware.devices)
    return container.gpus != "none" or bool(container.devices)


def _variables(recipe: Recipe, *, on_devices: bool) -> AbstractSet[str]:
    """The variables a draft may propose that act on the recipe's engine."""
    from tuner.trial.draft import KV_SPACE, MOE, MOE_MAX

    # Of an engine that somebody built, nobody knows whether its experts are switched on a device.
    may = {KV_SPACE} if on_devices and recipe.spec.base.existing else {KV_SPACE, MOE, MOE_MAX}
    return {name for name in may if recipe.knows_env(name)}


def _ask(recipe: Recipe, model: Path | None) -> AbstractSet[str] | None:
    """The flags of the engine itself; None where it cannot be asked."""
    import tempfile

    from rich.console import Console
    from rich.text import Text

    from tuner.build import build_engine, default_launch, host_needs
    from tuner.trial.starting import asker

    with Console(stderr=True).status(Text(f"asking engine {recipe.name}")):
        engine = build_engine(recipe, launch=default_launch(recipe))
        env = dict(engine.env)
        if engine.image is not None:
            env = {**dict(host_needs(engine.container).env), **env}
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            with asker(engine, (model or place).absolute(), env=env, log=place) as asked:
                return asked.flags()
