"""Prints how fast each variant of the routed experts is, against the floor that memory sets and against vLLM's own.

Runs inside the engine's environment, where torch and vLLM are::

    <engine>/bin/python benchmarks/moe/run.py [--shape 256,2048,512,8] [--rounds 15]

Everything is measured twice, with other inputs. The first half makes the policy that ``auto`` follows; the second is
what is printed, and says how far the policy's choice is from the fastest variant of that half. All variants run in
each round, in random order, and ratios are of the same round: on a busy machine these hold where milliseconds do not.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence

import torch

from enginex.bench import contestants, shapes
from enginex.bench.measure import Measured, measure
from enginex.moe.names import NATIVE
from enginex.moe.policy import cpu_device

TOKENS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
OURS = "best of ours"


def ratio(at: Measured, name: str, other: str) -> float:
    """Median of a variant's time over another's, round by round as far as both ran."""
    mine, theirs = at.rows[name].seconds, at.rows[other].seconds
    return statistics.median(a / b for a, b in zip(mine, theirs, strict=False))


def row(first: Measured, second: Measured) -> list[str]:
    """Say all of one number of tokens."""
    names = list(second.rows)
    ours = min((n for n in names if n != NATIVE), key=lambda n: second.rows[n].median_s)
    chosen, fastest = first.fastest(), second.fastest()
    cells = [f"{1e3 * second.rows[n].median_s:.2f} ({second.share(n):.0%})" for n in names]
    against = f"{ratio(second, ours, NATIVE):.2f}" if NATIVE in names else "-"
    behind = max(0.0, ratio(second, chosen, fastest) - 1)
    sizes = [b for r in second.rows.values() for b in r.bytes_read]
    floor = f"{1e3 * statistics.mean(sizes) / second.bandwidth:.2f}"
    return [str(second.tokens), floor, *cells, f"{ours} {against}", f"{chosen} +{behind:.0%}"]


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    head, *body = rows
    for line in (head, ["---"] * len(head), *body):
        print("| " + " | ".join(line) + " |", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shape", default="256,2048,512,8,bf16")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--variants")
    parser.add_argument("--tokens", default=",".join(map(str, TOKENS)))
    parser.add_argument("--huge-pages", action="store_true")
    options = parser.parse_args()
    shape = shapes.parse(options.shape)
    names = options.variants.split(",") if options.variants else contestants.available()
    sets = list(contestants.weight_sets(shape, names, huge_pages=options.huge_pages))
    print(f"{shape}, {torch.get_num_threads()} threads, {len(sets)} weight sets, {cpu_device()}")
    rows = [["T", "floor ms", *(f"{n} ms (of floor)" for n in names), f"{OURS} / native", "auto"]]
    won: set[str] = set()
    for tokens in map(int, options.tokens.split(",")):
        halves = [
            measure(shape, sets, names, tokens, rounds=options.rounds, seed=s) for s in (0, 1)
        ]
        rows.append(row(*halves))
        won |= {half.fastest() for half in halves}
        print(rows[-1], file=sys.stderr, flush=True)
    print_table(rows)
    lost = [name for name in names if name not in won]
    print(f"\nNever the fastest: {', '.join(lost) or 'none'}")


if __name__ == "__main__":
    main()
