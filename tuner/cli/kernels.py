"""``tuner kernels``: which kernel variant is fastest at a model's shapes on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def kernels(  # noqa: PLR0913, PLR0917 - one for each option
    model: Annotated[
        Path, typer.Argument(help="The model's folder; its config.json says the shapes.")
    ],
    recipe: Annotated[str, typer.Option(help="The engine's recipe.")] = "cpu",
    ranks: Annotated[
        int, typer.Option("--tp", min=1, help="Tensor-parallel ranks that share an expert.")
    ] = 1,
    tokens: Annotated[
        str | None, typer.Option(help="Tokens a step, as 1,2,4,8. Default: 12 sizes up to 64.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each variant runs.")] = 15,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of a rank. Default: as torch takes.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(help="The policy file. Default: one in the user's cache.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the kernel variants at a model's shapes.

    The policy that `auto` follows is written.

    Prints milliseconds a layer and each variant's share of the floor that memory bandwidth sets.

    Example: tuner kernels /models/Qwen3.6-35B-A3B --tp 4 --tokens 1,2,4,8
    """
    from rich.console import Console
    from rich.text import Text

    from tuner import paths
    from tuner.build import (
        build_engine,
        default_launch,
        load_recipe,
        measure_kernels,
        policy_file,
    )
    from tuner.build.kernels import POLICY_VARIABLE, is_an_image

    loaded = load_recipe(recipe)
    if default_launch(loaded) != "process":
        raise is_an_image(loaded.name)
    options = ["--tp", str(ranks), "--rounds", str(rounds)]
    options += ["--tokens", tokens] if tokens else []
    options += ["--threads", str(threads)] if threads else []
    target = (policy or policy_file(paths.cache_dir())).absolute()
    with Console(stderr=True).status("kernels") as status:
        found = measure_kernels(
            build_engine(loaded),
            model.absolute(),
            policy=target,
            options=options,
            report=lambda line: status.update(Text(f"kernels: {line[:100]}")),
        )
    if as_json:
        report = found.figures | {
            "policy": str(found.policy),
            "never_fastest": found.never_fastest(),
        }
        typer.echo(json.dumps(report, indent=1))
        return
    typer.echo(found.table.rstrip())
    typer.echo(f"\nNever the fastest: {', '.join(found.never_fastest()) or 'none'}")
    typer.echo(f"Policy for ENGINEX_MOE_TINY_IMPL=auto: {POLICY_VARIABLE}={found.policy}")
