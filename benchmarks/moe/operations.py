"""Prints how many operations each torch variant starts for one layer, and how many experts' weights it reads.

Runs inside the engine's environment: ``<engine>/bin/python benchmarks/moe/operations.py``. Both are counted and not
timed, so they hold for any device: where starting an operation is dear the first decides, where reading is the second.
Views of tensors start nothing and are not counted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from enginex.moe import registry
from enginex.moe.names import TORCH_VARIANTS

TOKENS = (1, 2, 4, 8, 16)
WIDTH, INNER = 64, 32  # the counts do not depend on them
FREE = frozenset(
    {
        *(
            "alias",
            "as_strided",
            "detach",
            "empty",
            "empty_like",
            "expand",
            "lift_fresh",
            "permute",
        ),
        *("reshape", "select", "slice", "split", "squeeze", "t", "transpose", "unsqueeze", "view"),
        *("_reshape_alias", "_unsafe_view", "_local_scalar_dense"),
    }
)
"""What starts no computation."""
COPIES = frozenset({"tokenwise", "bmm"})
"""Variants that copy an expert's weights together for each token that chose it, and read them once more."""


class Counter(TorchDispatchMode):
    """Counts the operations that are started inside."""

    def __init__(self) -> None:
        super().__init__()
        self.started = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Count one operation, and let it happen."""
        self.started += func.overloadpacket.__name__ not in FREE
        return func(*args, **(kwargs or {}))


def started(variant: Callable[..., torch.Tensor], *given: torch.Tensor) -> int:
    """Count the operations of one layer of one step."""
    with Counter() as counter:
        variant(*given)
    return counter.started


def main() -> None:
    """Count and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experts", type=int, default=256)
    parser.add_argument("--topk", type=int, default=8)
    options = parser.parse_args()
    torch.manual_seed(0)
    w13 = torch.randn(options.experts, 2 * INNER, WIDTH).bfloat16()
    w2 = torch.randn(options.experts, WIDTH, INNER).bfloat16()
    print(f"| T | distinct experts | {' | '.join(TORCH_VARIANTS)} |")
    print("|---" * (2 + len(TORCH_VARIANTS)) + "|")
    for tokens in TOKENS:
        hidden = torch.randn(tokens, WIDTH).bfloat16()
        weights, ids = torch.randn(tokens, options.experts).softmax(-1).topk(options.topk)
        distinct = int(ids.unique().numel())
        cells = []
        for name in TORCH_VARIANTS:
            count = started(registry.get(name), hidden, w13, w2, weights, ids)
            reads = distinct if name in {"loop", "grouped"} else tokens * options.topk
            cells.append(f"{count}, {3 * reads if name in COPIES else reads}")
        print(f"| {tokens} | {distinct} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
