"""``tuner init``: write a first search space."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.complete import recipes

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from tuner.build import Recipe


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
        bool,
        typer.Option(
            "--ask", help="Ask the engine itself for its flags; it is built if it is new."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a first search space for this machine, with comments.

    It holds what the engine knows and what the model allows.

    Example: tuner init my_space.yaml --recipe cuda --model /models/Qwen3-30B-A3B
    """
    import re

    from tuner.build import default_launch, load_recipe
    from tuner.errors import UserError
    from tuner.files import write_atomic
    from tuner.memory.config import read_config
    from tuner.spec import parse_space
    from tuner.telemetry.detect import detect
    from tuner.telemetry.hardware import detect_hardware
    from tuner.trial.admission import check_targets
    from tuner.trial.draft import Ground, draft

    if file.exists() and not force:
        raise UserError(
            "this file is there already", file=file, mend="name another, or use --force"
        )
    source = detect().source
    try:
        hardware = detect_hardware(source)
    finally:
        source.close()
    name = recipe or ("cuda" if hardware.telemetry == "nvml" else "cpu")
    loaded = load_recipe(name)
    container = loaded.spec.container
    on_devices = bool(hardware.devices) and (container.gpus != "none" or bool(container.devices))
    words = f"{model.name if model else 'tiny'}-{loaded.name}".lower()
    ground = Ground(
        study=study or re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:60],
        recipe=str(Path(name).resolve()) if "/" in name else name,
        launch=default_launch(loaded),
        model=str(model.resolve()) if model else None,
        config=read_config(model) if model else None,
        hardware=hardware,
        on_devices=on_devices,
        flags=_ask(loaded, model) if ask else loaded.flags(),
        variables=_variables(loaded),
    )
    text = draft(ground)
    check_targets(
        parse_space(text, file.resolve(), any_version=True)
    )  # a draft that is refused is a defect of ours
    try:
        write_atomic(file, text)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", file=file) from error
    typer.echo(f"{file}: read it, change it, then: tuner validate {file}, tuner run {file}")


def _variables(recipe: Recipe) -> AbstractSet[str]:
    """The variables a draft may propose that the recipe's engine reads."""
    return {v for v in ("VLLM_CPU_KVCACHE_SPACE", "ENGINEX_MOE_TINY_IMPL") if recipe.knows_env(v)}


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
