"""Search spaces for tests: what a test is about is written, the rest is filled in."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tuner.spec import Context, Hardware, SearchSpace, parse_space

SECTIONS = {
    "version": "version: 1",
    "study": "study: test",
    "engine": "engine: {recipe: cpu, model: {make: tiny-hybrid}}",
    "parameters": "parameters: {seqs: {flag: --max-num-seqs, choices: [1, 2, 4], baseline: 1}}",
    "budget": "budget: {trials: 5}",
    "workload": (
        "workload: {kind: conversations, conversations: 4, turns: 2, concurrency: 3, "
        "turn_tokens: 100, output_tokens: 8}"
    ),
}

Build = Callable[..., SearchSpace]


def filled(text: str) -> str:
    """The text with the sections that it lacks behind it, so that its own lines keep their numbers."""
    text = dedent(text)
    given = set(re.findall(r"^(\w+):", text, re.MULTILINE))
    if "workloads" in given:
        given.add("workload")
    missing = [line for name, line in SECTIONS.items() if name not in given]
    return "\n".join([text.rstrip(), *missing]) + "\n"


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def make(text: str, *, any_version: bool = False) -> SearchSpace:
        return parse_space(filled(text), tmp_path / "space.yaml", any_version=any_version)

    return make


def on(space: SearchSpace, *, devices: int = 4, cores: int = 8, memory: int = 64 << 30) -> Context:
    """The context of a space on a machine of a certain size."""
    return Context.of(space, Hardware(devices, cores, memory, 32 << 30))


@pytest.fixture
def context() -> Callable[..., Context]:
    return on
