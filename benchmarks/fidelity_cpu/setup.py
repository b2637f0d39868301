"""What is measured: the cells, the load, and how the engine of a cell is started."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.files import digest_files
from tuner.load.plan import Plan
from tuner.load.workloads.conversations import Conversations, conversations, warm_up

HERE = Path(__file__).parent
RULE = HERE / "rule.yaml"
RANKS = (1, 2)
SEQS = (1, 2, 3, 4, 6, 8)
REPEATS = 4
TOKENS = 2048
MODEL = "llm"
OUTPUT = 64
SHAPE = Conversations(
    name="surface", sessions=16, turns=3, concurrency=8, system_tokens=600, output_tokens=OUTPUT
)
SEED = 5


class ByteTokens:
    """The tiny model's tokenizer: every byte is a token."""

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(text.encode())


@dataclass(frozen=True)
class Cell:
    """A point of the surface.

    Attributes:
        tp: Tensor-parallel ranks.
        mns: ``--max-num-seqs``.
    """

    tp: int
    mns: int

    @property
    def name(self) -> str:
        """How its files are named."""
        return f"tp{self.tp}-mns{self.mns}"


@dataclass(frozen=True)
class Subject:
    """What is measured with.

    Attributes:
        python: The engine's interpreter.
        model: The model's folder.
        out: Where everything is written.
    """

    python: Path
    model: Path
    out: Path

    def command(self, cell: Cell, *extra: str) -> tuple[str, ...]:
        """The server's command for a cell, without host and port."""
        return (
            str(self.python), "-m", "vllm.entrypoints.openai.api_server",
            "--model", str(self.model), "--served-model-name", MODEL,
            "--max-model-len", "32768", "--max-num-seqs", str(cell.mns),
            "--max-num-batched-tokens", str(TOKENS), "--tensor-parallel-size", str(cell.tp),
            "--enforce-eager", "--enable-prefix-caching", "--enable-prompt-tokens-details", *extra,
        )  # fmt: skip

    def environment(self, cell: Cell) -> dict[str, str]:
        """The server's environment for a cell."""
        env = {
            "PATH": f"{self.python.parent}:{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/"),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
        }
        if cell.tp > 1:
            cores = sorted(os.sched_getaffinity(0))
            env["VLLM_CPU_OMP_THREADS_BIND"] = "|".join(str(core) for core in cores[: cell.tp])
        return env


def cells() -> list[Cell]:
    """Every cell of the surface."""
    return [Cell(tp, mns) for tp in RANKS for mns in SEQS]


def schedule() -> list[tuple[Cell, int]]:
    """Every run in the order in which it is made: rounds there and back, so that drift meets all."""
    order = cells()
    random.Random(SEED).shuffle(order)
    return [
        (cell, repeat)
        for repeat in range(REPEATS)
        for cell in (order if repeat % 2 == 0 else order[::-1])
    ]


def plans() -> tuple[Plan, Plan]:
    """The warm-up and the load."""
    tokens = ByteTokens()
    return (
        warm_up(SHAPE, seed=SEED, tokens=tokens, sessions=4),
        conversations(SHAPE, seed=SEED, tokens=tokens),
    )


def manifest(subject: Subject) -> dict[str, Any]:
    """Hashes of everything that the outcome hangs on, and what it was measured on."""
    measuring = ("setup.py", "measure.py", "inside/operators.py", "inside/routing.py")
    here = [(name, HERE / name) for name in measuring]
    model = [(path.name, path) for path in sorted(subject.model.iterdir()) if path.is_file()]
    return {
        "rule_sha256": hashlib.sha256(RULE.read_bytes()).hexdigest(),
        "scripts_sha256": digest_files(here),
        "load_sha256": [plan.fingerprint for plan in plans()],
        "model_sha256": digest_files(model),
        "engine": _engine(subject.python),
        "cells": [cell.name for cell in cells()],
        "repeats": REPEATS,
        "machine": {
            "cpu": _cpu(),
            "cores": len(os.sched_getaffinity(0)),
            "kernel": platform.release(),
        },
    }


def _engine(python: Path) -> dict[str, str]:
    script = (
        "import importlib.metadata as m, json\n"
        "names = sorted((d.metadata['Name'] or '', d.version) for d in m.distributions())\n"
        "print(json.dumps(names))"
    )
    done = subprocess.run([str(python), "-c", script], capture_output=True, text=True, check=True)
    packages = {name.lower(): version for name, version in json.loads(done.stdout)}
    digest = hashlib.sha256(json.dumps(sorted(packages.items())).encode()).hexdigest()
    vllm = packages.get("vllm-cpu") or packages.get("vllm") or "unknown"
    return {"vllm": vllm, "torch": packages.get("torch", "unknown"), "packages_sha256": digest}


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"
