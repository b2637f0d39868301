"""``tuner engine``: build, list and verify engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.complete import recipes

if TYPE_CHECKING:
    from tuner.build import CachedEngine, Engine, Progress

app = typer.Typer(no_args_is_help=True, help="Build, list and verify engines.")

_RecipeArgument = Annotated[
    str, typer.Argument(help="A recipe's name, or the folder of your own.", autocompletion=recipes)
]
_Launch = Annotated[
    str | None, typer.Option(help="process or docker; by default what the recipe is for.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def build(
    recipe: _RecipeArgument,
    launch: _Launch = None,
    wheelhouse: Annotated[
        Path | None, typer.Option(help="Folder with all wheels, used instead of any index.")
    ] = None,
    as_json: _Json = False,
) -> None:
    """Build the engine of a recipe, or find it built.

    Example: tuner engine build cpu --launch docker --wheelhouse wheels/
    """
    from rich.console import Console
    from rich.text import Text

    from tuner.build import build_engine, default_launch, load_recipe
    from tuner.quantity import format_seconds

    loaded = load_recipe(recipe)
    console = Console(stderr=True)
    with console.status(Text(f"engine {recipe}")) as status:

        def show(progress: Progress) -> None:
            where = f"{progress.number}/{progress.total} " if progress.number else ""
            said = f"engine {recipe}: {where}{progress.step} "
            status.update(Text.assemble(said, (_plain(progress.line), "dim")))

        engine = build_engine(
            loaded,
            progress=show,
            launch=launch or default_launch(loaded),
            wheelhouse=wheelhouse,
        )
    if as_json:
        typer.echo(json.dumps(engine.as_json(), indent=1))
        return
    typer.echo(f"{_title(engine)}, built in {format_seconds(engine.built_in_s)}")
    typer.echo(f"{engine.image or engine.root}")


@app.command()
def wheels(
    recipe: _RecipeArgument,
    folder: Annotated[Path, typer.Argument(help="Where the wheels go.")],
) -> None:
    """Download every wheel of a recipe, for building offline.

    Example: tuner engine wheels cpu wheels/
    """
    from rich.console import Console
    from rich.text import Text

    from tuner import paths
    from tuner.build import fill_wheelhouse, load_recipe
    from tuner.quantity import format_bytes

    with Console(stderr=True).status(Text(f"wheels of {recipe}")):
        found = fill_wheelhouse(load_recipe(recipe), folder.resolve(), cache=paths.cache_dir())
    total = sum(wheel.stat().st_size for wheel in found)
    typer.echo(f"{len(found)} wheels, {format_bytes(total)}, in {folder}")


@app.command("list")
def list_(
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove engines that no recipe needs any more.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """List the engines in the cache, with their sizes.

    --prune removes the outdated ones.

    Example: tuner engine list --prune
    """
    from tuner import paths
    from tuner.build import current_digests, list_engines
    from tuner.build import prune as prune_engines

    cache = paths.cache_dir()
    entries = prune_engines(cache, keep=current_digests()) if prune else list_engines(cache)
    if as_json:
        typer.echo(json.dumps([_row(entry) for entry in entries], indent=1))
        return
    word = "removed " if prune else ""
    for entry in entries:
        typer.echo(word + _line(entry))
    if not entries:
        typer.echo("nothing to remove" if prune else f"no engine in {cache}")


@app.command()
def verify(recipe: _RecipeArgument, launch: _Launch = None, as_json: _Json = False) -> None:
    """Run a recipe's checks inside its engine; say what is missing.

    Example: tuner engine verify cpu
    """
    from tuner.build import build_engine, default_launch, load_recipe, verify_engine

    loaded = load_recipe(recipe)
    results = verify_engine(build_engine(loaded, launch=launch or default_launch(loaded)), loaded)
    bad = [result for result in results if not result.ok]
    if as_json:
        rows = [
            {"name": r.name, "ok": r.ok, "detail": r.detail, "mend": r.mend if not r.ok else None}
            for r in results
        ]
        typer.echo(json.dumps(rows, indent=1))
    else:
        for result in results:
            typer.echo(f"{'ok  ' if result.ok else 'BAD '} {result.name}: {result.detail}")
            if not result.ok and result.mend:
                typer.echo(f"     {result.mend}")
    raise typer.Exit(1 if bad else 0)


def _title(engine: Engine) -> str:
    parts = [f"engine {engine.recipe} {engine.digest[:12]}"]
    if engine.fingerprint.vllm:
        parts.append(f"vLLM {engine.fingerprint.vllm}")
    if engine.fingerprint.torch:
        parts.append(f"torch {engine.fingerprint.torch}")
    return ", ".join(parts)


def _state(entry: CachedEngine) -> str:
    if entry.building:
        return "building"
    return "ready" if entry.engine is not None else "unfinished"


def _line(entry: CachedEngine) -> str:
    from tuner.quantity import format_bytes

    days = entry.age_s / 86400
    age = f"{days:.0f} days" if days >= 2 else f"{entry.age_s / 3600:.0f} hours"
    return f"{entry.name}  {_state(entry)}  {format_bytes(entry.size)}  {age} old"


def _row(entry: CachedEngine) -> dict[str, object]:
    return {
        "name": entry.name,
        "path": str(entry.path),
        "state": _state(entry),
        "digest": entry.engine.digest if entry.engine else None,
        "recipe": entry.engine.recipe if entry.engine else None,
        "bytes": entry.size,
        "age_s": round(entry.age_s),
    }


def _plain(line: str) -> str:
    """A line of a build's output without control characters, short enough for one row."""
    return "".join(char for char in line if char.isprintable())[:100]
