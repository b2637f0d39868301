"""The numeric watch: are the layers' outputs numbers, and are they alive?

A layer whose output is NaN, infinite or zero throughout does not stop an engine: it serves on, fast, and answers
nonsense. The watch looks at every layer in the first steps and in one step of so many after them. One reduction tells
all three apart: the largest absolute value of an output is NaN, infinite or zero. Between the steps that are
looked at, nothing of the watch is in the engine's way.

What it finds is told in one line each, for each place and finding once::

    [enginex] numeric found=non-finite where=model.layers.0.linear_attn nan=0.9998 tokens=512 step=3 pid=42
    [enginex] numeric found=all-zero where=model.layers.0.linear_attn tokens=512 step=3 pid=42

``nan`` is the share of NaN; where it is 0, the output is infinite somewhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from enginex import lines
from enginex.observe.modules import cover
from enginex.observe.runner import Observer
from enginex.observe.step import Step

__all__ = ["FIRST", "NumericWatch"]

FIRST = 8
"""Steps from the start on that are all looked at."""
_LINES_A_STEP = 4


class NumericWatch(Observer):
    """Looks at the outputs of layers, and at the logits.

    Args:
        every: One step of so many is looked at, after the first ones.
        write: Where the lines go.
    """

    def __init__(self, every: int, write: Callable[[str], None] = lines.emit) -> None:
        self._every = every
        self._write = write
        self._layers: list[tuple[str, nn.Module]] = []
        self._seen: list[tuple[str, torch.Size, Tensor]] = []
        self._told: set[tuple[str, str]] = set()
        self._undo: list[Callable[[], None]] = []
        self._looking = False

    def attach(self, layers: Sequence[tuple[str, nn.Module]], scope: str) -> None:
        """Take the layers to watch, and say so.

        Args:
            layers: Modules with their paths.
            scope: ``layers``, or ``logits`` where a compiled model hides its layers and only logits are seen.
        """
        self._layers = list(layers)
        fields = {"watch": "on", "every": self._every, "scope": scope, "layers": len(layers)}
        self._write(lines.render("numeric", fields | {"pid": os.getpid()}))

    def begin(self, number: int) -> None:
        """Look at this step's layers if it is its turn."""
        if self._looking:  # a step that failed half-way
            self._uncover()
        self._looking = number <= FIRST or number % self._every == 0
        if self._looking:
            self._seen = []
            self._undo = [cover(m, partial(self._call, path)) for path, m in self._layers]

    def computed(self, step: Step, logits: Any) -> None:
        """Judge what was seen."""
        if not self._looking:
            return
        self._uncover()
        if isinstance(logits, Tensor) and logits.numel():
            self._see("logits", logits)
        seen, self._seen = self._seen, []
        if not seen:
            return
        # One transfer for all layers: each by itself would make a device wait for the host.
        figures = torch.stack([figures for _, _, figures in seen]).tolist()
        told = 0
        for (path, shape, _), (largest, nans) in zip(seen, figures, strict=True):
            found = _judge(largest)
            if found is not None and (path, found) not in self._told and told < _LINES_A_STEP:
                told += 1
                self._told.add((path, found))
                self._write(_line(path, found, nans / shape.numel(), shape[0], step))

    def _call(self, path: str, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        out = result[0] if isinstance(result, tuple) else result
        if isinstance(out, Tensor) and out.numel() and out.is_floating_point():
            self._see(path, out)
        return result

    def _see(self, path: str, x: Tensor) -> None:
        # Two numbers are kept and not the output: that of a long prompt, for every layer, would fill a device.
        figures = torch.stack([x.abs().amax().float(), x.isnan().sum().float()])
        self._seen.append((path, x.shape, figures))

    def _uncover(self) -> None:
        for undo in self._undo:
            undo()
        self._undo = []


def _judge(size: float) -> str | None:
    if size == 0:
        return "all-zero"
    return None if size < float("inf") else "non-finite"  # NaN is below nothing


def _line(path: str, found: str, nans: float, tokens: int, step: Step) -> str:
    fields = {
        "found": found,
        "where": path,
        "nan": f"{nans:.4g}" if found == "non-finite" else None,
        "tokens": tokens,
        "step": step.number,
        "pid": os.getpid(),
    }
    return lines.render("numeric", fields)
