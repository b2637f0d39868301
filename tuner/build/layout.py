"""What lies in an engine's folder or its image: the code that runs inside, the recipe, the sources."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from tuner.build.digest import named_files
from tuner.build.load import Recipe

INSIDE = "tuner_inside"
PLAN = "plan.json"
IMAGE_ROOT = "/opt/tuner-engine"
"""Where an engine's files lie inside an image."""

_STAMP = 1577836800  # 2020-01-01: the same bytes make the same archive; older times break zip files


def lay_out(recipe: Recipe, folder: Path, *, root: str, wheelhouse: str | None = None) -> None:
    """Put all that steps and checks use into a folder.

    Args:
        recipe: The recipe.
        folder: The folder, on this machine.
        root: The same folder as the engine will see it.
        wheelhouse: Folder with wheels as the engine will see it, instead of any index.
    """
    copy_tree(Path(__file__).parent / "inside", folder / INSIDE)
    copy_tree(recipe.folder, folder / "recipe", libraries=True)
    for name in recipe.sources:
        copy_tree(recipe.engine_dir / name, folder / "sources" / name)
    plan = plan_for(recipe, root=root, wheelhouse=wheelhouse)
    (folder / PLAN).write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")


def plan_for(recipe: Recipe, *, root: str, wheelhouse: str | None) -> dict[str, Any]:
    """What is handed to the code inside an engine: its steps and checks, and where things lie."""
    spec = recipe.spec
    return {
        "root": root,
        "recipe": f"{root}/recipe",
        "sources": f"{root}/sources",
        "wheelhouse": wheelhouse,
        "steps": [step.model_dump(mode="json") for step in spec.steps],
        "checks": [check.model_dump(mode="json") for check in spec.checks],
    }


def copy_tree(source: Path, target: Path, *, libraries: bool = False) -> None:
    """Copy a source tree without what running or building it left there."""
    target.mkdir(parents=True)
    for name, path in named_files(source, libraries=libraries):
        to = target / name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
        to.chmod(0o755 if os.access(path, os.X_OK) else 0o644)


def normalize(folder: Path) -> None:
    """Give every file and folder one time and plain permissions, so that equal trees make equal archives."""
    for path in (*folder.rglob("*"), folder):
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (_STAMP, _STAMP), follow_symlinks=False)
