"""Measure the kernel variants of an engine at a model's shapes, and keep which is fastest where.

The measuring is the engine's: ``python -m enginex.bench`` in its own environment, next to its torch and its vLLM. The
policy file that it writes lies in the user's cache and grows by device, shape and number type.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.build.engine import Engine
from tuner.build.process import build_env
from tuner.errors import TunerError, UserError
from tuner.files import check_writable

POLICY_VARIABLE = "ENGINEX_MOE_POLICY"
"""Where the variant ``auto`` looks for the policy."""
_NO_MODULE = "No module named"


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """What was measured.

    Attributes:
        table: For people: milliseconds and the share of the bandwidth floor.
        figures: For programs.
        policy: The file that says which variant is fastest.
    """

    table: str
    figures: dict[str, Any]
    policy: Path

    def never_fastest(self) -> list[str]:
        """Variants that are the fastest nowhere, which a search need not try."""
        points = [point for result in self.figures["results"] for point in result["tokens"]]
        won = {point["fastest"] for point in points}
        return sorted({name for point in points for name in point["variants"]} - won)


def policy_file(cache: Path) -> Path:
    """Where the policy of this machine lies."""
    return cache / "kernels" / "policy.json"


def measure_kernels(
    engine: Engine,
    model: Path,
    *,
    policy: Path,
    options: Sequence[str] = (),
    report: Callable[[str], None] = lambda _: None,
) -> KernelTimes:
    """Measure the variants of the routed experts, and write the fastest into the policy file.

    Args:
        engine: An engine that runs on this machine.
        model: A model's folder; its ``config.json`` says the shape.
        policy: The policy file; what it says of other shapes and devices stays.
        options: Further options of the measuring program.
        report: Hears of its progress, a line at a time.

    Raises:
        UserError: When the engine is an image or has no such kernels, the model has no experts, or
            the policy file cannot be written.
        TunerError: When the measuring fails otherwise.
    """
    if engine.image is not None:
        raise is_an_image(engine.recipe)
    with contextlib.suppress(OSError):  # what is wrong with it is said by the check
        policy.parent.mkdir(parents=True, exist_ok=True)
    check_writable(policy)
    with tempfile.TemporaryDirectory(prefix="tuner-kernels-") as folder:
        figures = Path(folder) / "figures.json"
        argv = [str(engine.python), "-m", "enginex.bench", "--model", str(model)]
        argv += ["--policy", str(policy), "--json", str(figures), *options]
        table = _run(argv, build_env(dict(engine.env)), report)
        return KernelTimes(table, json.loads(figures.read_text(encoding="utf-8")), policy)


def is_an_image(recipe: str) -> UserError:
    """The error of an engine in an image: what is measured is the processor, by an engine of this machine."""
    return UserError(
        f"the engine {recipe} is an image, and what is measured here is this machine's processor",
        mend="measure a recipe that is built on this machine, such as cpu; on devices search "
        "ENGINEX_MOE_TINY_IMPL itself",
    )


def _run(argv: Sequence[str], env: dict[str, str], report: Callable[[str], None]) -> str:
    """Run the measuring program; its errors and progress are on standard error, its table is not."""
    said: list[str] = []
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        subprocess.Popen(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        try:
            for line in process.stderr or ():
                said = [*said[-20:], line.rstrip()]
                report(line.strip())
            status = process.wait()
        except BaseException:
            process.kill()  # our own child, by its handle, and it has none itself
            raise
        out.seek(0)
        table = out.read()
    if status == 0:
        return table
    last = next((line for line in reversed(said) if line), "it said nothing")
    if _NO_MODULE in last and "enginex" in last:
        raise UserError(
            "the engine has no enginex kernels", mend="take a recipe that installs them"
        )
    if status == 2:
        raise UserError(last.removeprefix("enginex.bench: "))
    raise TunerError(f"measuring the kernels ended with status {status}: {last}")
