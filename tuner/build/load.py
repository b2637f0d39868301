"""Reads a recipe from its folder and checks all that can be checked before anything is built."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from tuner import paths
from tuner.build._yaml import read_yaml
from tuner.build.digest import files_digest, named_files
from tuner.build.recipe import RecipeSpec
from tuner.build.steps import CopyStep, PatchStep, PipStep
from tuner.errors import RecipeError
from tuner.spec.mends import nearest

RECIPE_FILE = "recipe.yaml"
_BINARY_PROBE = 8192


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe that was read and found consistent.

    Attributes:
        folder: Where it lies.
        spec: What its ``recipe.yaml`` says.
        engine_dir: The folder with the sources that its steps may name (``engine/``).
        files_digest: SHA-256 of its files and of the sources that it names, by content.
    """

    folder: Path
    spec: RecipeSpec
    engine_dir: Path
    files_digest: str

    @property
    def name(self) -> str:
        """The recipe's name."""
        return self.spec.name

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the packages under ``engine/`` that its steps install."""
        return _sources(self.spec)

    def flags(self) -> frozenset[str] | None:
        """Server flags that the engine understands, long and short; None where any is let through."""
        return None if self.spec.knows.flags is None else self._words(self.spec.knows.flags)

    def variables(self) -> tuple[str, ...]:
        """Variables that the server reads; a trailing ``*`` stands for any ending."""
        listed = self.spec.knows.variables
        return (*self.spec.knows.env, *sorted(self._words(listed) if listed else ()))

    def _words(self, file: str) -> frozenset[str]:
        text = (self.folder / file).read_text(encoding="utf-8")
        lines = (line.split("#", 1)[0] for line in text.splitlines())
        return frozenset(word for line in lines for word in line.split())

    def knows_env(self, name: str) -> bool:
        """Whether the server reads this environment variable, as far as the recipe says."""
        return any(
            name.startswith(known[:-1]) if known.endswith("*") else name == known
            for known in self.variables()
        )


def recipe_names(data_dir: Path | None = None) -> tuple[str, ...]:
    """Names of the recipes that come with tuner."""
    folder = (data_dir or paths.data_dir()) / "engine" / "recipes"
    return tuple(sorted(found.parent.name for found in folder.glob(f"*/{RECIPE_FILE}")))


def load_recipe(which: str | Path, *, data_dir: Path | None = None) -> Recipe:
    """Read a recipe by name, or from a folder of the user's own.

    Args:
        which: A name such as ``cpu``, or a path (anything with a ``/``) to a recipe's folder.
        data_dir: The folder that holds ``engine/``; the one that came with tuner by default.

    Raises:
        RecipeError: When there is no such recipe, or it cannot be accepted.
    """
    engine_dir = (data_dir or paths.data_dir()) / "engine"
    folder = find_recipe(which, data_dir=data_dir)
    spec = _parse(folder / RECIPE_FILE)
    _check_files(folder, spec, engine_dir)
    digest = files_digest(folder, {name: engine_dir / name for name in _sources(spec)})
    return Recipe(folder=folder, spec=spec, engine_dir=engine_dir, files_digest=digest)


def find_recipe(which: str | Path, *, data_dir: Path | None = None) -> Path:
    """The folder of a recipe.

    Args:
        which: A name such as ``cpu``, or a path (anything with a ``/``) to a recipe's folder.
        data_dir: The folder that holds ``engine/``; the one that came with tuner by default.

    Raises:
        RecipeError: When there is no such recipe.
    """
    folder = Path(which)
    if isinstance(which, str) and "/" not in which:
        folder = (data_dir or paths.data_dir()) / "engine" / "recipes" / which
        if not (folder / RECIPE_FILE).is_file():
            raise _unknown(which, recipe_names(data_dir))
    folder = folder.expanduser().resolve()
    if not (folder / RECIPE_FILE).is_file():
        raise RecipeError(
            "there is no recipe.yaml here", file=folder, mend="name a recipe or its folder"
        )
    return folder


def _unknown(name: str, known: tuple[str, ...]) -> RecipeError:
    near = nearest(name, known)
    guess = f"did you mean {near}? " if near else ""
    mend = f"{guess}known are {', '.join(known) or 'none'}, and a folder of your own as ./NAME"
    return RecipeError(f"there is no recipe {name!r}", mend=mend)


def _sources(spec: RecipeSpec) -> tuple[str, ...]:
    names = [s.source for s in spec.steps if isinstance(s, PipStep) and s.source is not None]
    return tuple(dict.fromkeys(names))


def _parse(file: Path) -> RecipeSpec:
    """The declaration in a file."""
    document = read_yaml(file)
    try:
        return RecipeSpec.model_validate(document.data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        raise RecipeError(
            f"{where}: {what}" if where else what, file=file, line=document.line(first["loc"])
        ) from error


def _check_files(folder: Path, spec: RecipeSpec, engine_dir: Path) -> None:
    """Every file that the recipe names is inside its folder, and all text has LF line ends."""
    for owner, name in _named(spec):
        path = (folder / name).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            raise RecipeError(
                f"{owner} names {name}, which is not a file of the recipe",
                file=folder / RECIPE_FILE,
                mend="put the file into the recipe's folder or correct the name",
            )
    for source in _sources(spec):
        if not (engine_dir / source / "pyproject.toml").is_file():
            raise RecipeError(
                f"there is no package {source!r} in {engine_dir}", file=folder / RECIPE_FILE
            )
    roots = [folder, *(engine_dir / name for name in _sources(spec))]
    for root in roots:
        for _, path in named_files(root):
            _check_line_ends(path, spec, folder)


def _named(spec: RecipeSpec) -> list[tuple[str, str]]:
    """Pairs of who names a file of the recipe, and the file."""
    found = [(f"extras {name}", file) for name, file in spec.extras.items()]
    if spec.knows.flags is not None:
        found.append(("knows.flags", spec.knows.flags))
    if spec.knows.variables is not None:
        found.append(("knows.variables", spec.knows.variables))
    for step in spec.steps:
        owner = f"step {step.name!r}"
        if isinstance(step, PipStep) and step.requirements is not None:
            found.append((owner, step.requirements))
        elif isinstance(step, CopyStep):
            found.append((owner, step.file))
        elif isinstance(step, PatchStep) and step.diff is not None:
            found.append((owner, step.diff))
    return found


def _check_line_ends(path: Path, spec: RecipeSpec, folder: Path) -> None:
    """A carriage return in a script or a patch breaks a build far from its cause: stop here."""
    raw = path.read_bytes()
    at = raw.find(b"\r\n")
    if at < 0 or b"\0" in raw[:_BINARY_PROBE]:
        return
    name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name
    users = [owner for owner, file in _named(spec) if file == name]
    used = f" ({users[0]} uses it)" if users else ""
    raise RecipeError(
        f"CRLF line ends{used}",
        file=path,
        line=raw.count(b"\n", 0, at) + 1,
        mend=f"convert it with: sed -i 's/\\r$//' {path}, and let .gitattributes say eol=lf",
    )
