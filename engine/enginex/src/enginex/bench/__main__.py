"""The command line of the micro-benchmark."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from enginex import __version__
from enginex.bench import contestants, shapes
from enginex.bench.measure import Measured, measure
from enginex.bench.shapes import Shape
from enginex.errors import EnginexError
from enginex.moe.policy import Key, Policy, cpu_device, read, write

FORMAT = "enginex-bench/1"
_TOKENS = "1,2,3,4,6,8,12,16,24,32,48,64"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a table or JSON, and write the policy; 0 on success, 2 on a mistake in what was asked."""
    options = _parser().parse_args(argv)
    try:
        if options.threads:
            torch.set_num_threads(options.threads)
        asked = [shapes.parse(text) for text in options.shape]
        asked += [shapes.from_model(Path(folder), options.tp) for folder in options.model]
        if not asked:
            raise shapes.BadShape("nothing to measure; give --shape or --model")
        names = _names(options.variants)
        results = [_one(shape, names, options) for shape in asked]
        if options.policy:
            _add_to_policy(Path(options.policy), results)
    except (EnginexError, MemoryError) as error:
        print(f"enginex.bench: {error}", file=sys.stderr)
        return 2
    report = {
        "format": FORMAT,
        "enginex": __version__,
        "torch": torch.__version__,
        "results": results,
    }
    if options.json == "-":
        print(json.dumps(report, indent=2))
        return 0
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    for result in results:
        print(table(result))
    return 0


def table(result: dict[str, Any]) -> str:
    """Render one shape's result: milliseconds and share of the bandwidth floor, the fastest marked."""
    names = list(result["tokens"][0]["variants"])
    shape = result["shape"]
    head = (
        f"E={shape['experts']} H={shape['hidden']} I={shape['inter']} k={shape['topk']} {shape['dtype']}, "
        f"{result['threads']} threads, {result['weight_sets']} weight sets"
        f"{', huge pages' if result['huge_pages'] else ''}, {result['device']}"
    )
    rows = [["T", "experts", "floor ms", "GB/s", *names]]
    for at in result["tokens"]:
        cells = [
            str(at["tokens"]),
            f"{at['distinct']:.0f}",
            f"{at['floor_ms']:.3f}",
            f"{at['bandwidth_gbps']:.1f}",
        ]
        for name in names:
            measured = at["variants"][name]
            mark = "*" if name == at["fastest"] else " "
            cells.append(f"{measured['median_ms']:.3f} {measured['share_of_floor']:4.0%}{mark}")
        rows.append(cells)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join([head, *lines, ""])


def _one(shape: Shape, names: list[str], options: argparse.Namespace) -> dict[str, Any]:
    sets = list(contestants.weight_sets(shape, names, huge_pages=options.huge_pages))
    running = [name for name in names if name in sets[0].run]
    points = []
    for tokens in options.tokens:
        began = time.monotonic()
        points.append(_point(shape, measure(shape, sets, running, tokens, rounds=options.rounds)))
        print(f"enginex.bench: T={tokens} took {time.monotonic() - began:.1f} s", file=sys.stderr)
    return {
        "device": cpu_device(),
        "threads": torch.get_num_threads(),
        "weight_sets": len(sets),
        "huge_pages": options.huge_pages,
        "rounds": options.rounds,
        "shape": {
            "experts": shape.experts,
            "hidden": shape.hidden,
            "inter": shape.inter,
            "topk": shape.topk,
            "dtype": shape.dtype,
        },
        "tokens": points,
    }


def _point(shape: Shape, measured: Measured) -> dict[str, Any]:
    sizes = [b for row in measured.rows.values() for b in row.bytes_read]
    size = sum(sizes) / len(sizes)
    return {
        "tokens": measured.tokens,
        "distinct": size / shape.expert_bytes,
        "bandwidth_gbps": measured.bandwidth / 1e9,
        "floor_ms": 1e3 * size / measured.bandwidth,
        "fastest": measured.fastest(),
        "variants": {
            name: {
                "median_ms": 1e3 * row.median_s,
                "least_ms": 1e3 * min(row.seconds),
                "gbps": row.bytes_per_s / 1e9,
                "share_of_floor": measured.share(name),
                "rounds": len(row.seconds),
            }
            for name, row in measured.rows.items()
        },
    }


def _add_to_policy(path: Path, results: list[dict[str, Any]]) -> None:
    """Put the fastest variants into the policy file, keeping what it says of other shapes and devices."""
    entries = dict(read(path).entries) if path.exists() else {}
    for result in results:
        shape = result["shape"]
        key = Key(
            device=result["device"],
            threads=result["threads"],
            dtype=shape["dtype"],
            experts=shape["experts"],
            hidden=shape["hidden"],
            inter=shape["inter"],
            topk=shape["topk"],
        )
        entries[key] = {at["tokens"]: at["fastest"] for at in result["tokens"]}
    write(path, Policy(entries))


def _names(text: str | None) -> list[str]:
    known = contestants.available()
    if text is None:
        return known
    names = text.split(",")
    for name in names:
        if name not in known:
            raise shapes.BadShape(f"variant {name!r} cannot run here; there are {', '.join(known)}")
    return names


def _tokens(text: str) -> list[int]:
    numbers = [int(part) for part in text.split(",")]
    if not numbers or min(numbers) < 1:
        raise ValueError(text)
    return numbers


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m enginex.bench",
        description="Measure the variants of the routed experts at real shapes, against the floor that memory sets.",
        epilog="example: python -m enginex.bench --model /models/qwen --tokens 1,2,4,8 --policy policy.json",
    )
    parser.add_argument(
        "--shape", action="append", default=[], metavar="E,H,I,K[,DTYPE]", help="a layer's shape"
    )
    parser.add_argument(
        "--model", action="append", default=[], metavar="FOLDER", help="a model with a config.json"
    )
    parser.add_argument(
        "--tp", type=int, default=1, help="tensor-parallel ranks of the model (default 1)"
    )
    parser.add_argument(
        "--tokens",
        type=_tokens,
        default=_tokens(_TOKENS),
        help=f"tokens a step (default {_TOKENS})",
    )
    parser.add_argument("--variants", metavar="A,B", help="default: all that can run here")
    parser.add_argument("--rounds", type=int, default=15, help="how often each runs (default 15)")
    parser.add_argument("--threads", type=int, help="default: as many as torch takes")
    parser.add_argument(
        "--huge-pages", action="store_true", help="put the weights on huge pages first"
    )
    parser.add_argument(
        "--policy", metavar="FILE", help="write the fastest variants into this policy file"
    )
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write all figures as JSON; - prints them instead of the table",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
