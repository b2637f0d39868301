"""Prints how sound and how fast the forms of the gated delta rule are, and what five clamps do to them.

Runs inside the engine's environment, where torch and vLLM are::

    <engine>/bin/python benchmarks/gdn/run.py [--tokens 2048] [--no-times]

Three tables. *Error*: relative distance (2-norm) from the rule in float64, over gates of several kinds, of the formula
that splits the decay in two factors, the same with all five clamps around it, and ours. *Clamps*: each clamp alone,
whether it makes the splitting formula finite, and how far it moves the exact answer (relative, 2-norm). *Times*: ours
against vLLM's own kernels, in paired rounds, where vLLM's kernels for this machine are there.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from enginex.gdn.chunked import CHUNK, chunked
from enginex.gdn.clamps import ALL, CLAMPS, NONE, Clamps, factored
from enginex.gdn.contract import default_scale, expand, unit
from enginex.gdn.decode import decode
from enginex.gdn.reference import reference

ROUNDS = 9


@dataclass(frozen=True)
class Gates:
    """A kind of sequence: g as the model makes it, from ``A_log`` where that is how it is made."""

    name: str
    g: Callable[[Tensor], Tensor]
    a_log: float | None = None
    size: float = 1.0
    beta: float | None = None


def served(a_log: float) -> Callable[[Tensor], Tensor]:
    """Gates as a layer computes them: ``-exp(A_log)·softplus(a + 1)``, a normal."""
    return lambda noise: -(torch.tensor(a_log).exp()) * functional.softplus(noise + 1)


KINDS = (
    Gates("mild: 0.1 a token", lambda n: -0.1 * n.abs()),
    Gates("a model's, A = 1", served(0.0), 0.0),
    Gates("a model's, A = 16", served(2.77), 2.77),
    Gates("A = 1100 (A_log 7)", served(7.0), 7.0),
    Gates("decay near 1", lambda n: -1e-7 * n.abs()),
    Gates("decay 1, beta 1", torch.zeros_like, beta=1.0),
    Gates("hard resets", lambda n: torch.where(n > 1.6, -1e6, -1e-6)),
    Gates("forgets all", lambda n: torch.where(n > 1.6, -torch.inf, -1e-6)),
    Gates("values of 1e6", lambda n: -0.1 * n.abs(), size=1e6),
)


def sequence(kind: Gates, tokens: int, heads: int = 4, width: int = 64) -> list[Tensor]:
    """Make q, k, v, g and beta."""
    made = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=made)

    q, k, v = (normal(tokens, heads, width) for _ in range(3))
    g = kind.g(normal(tokens, heads))
    beta = torch.rand(tokens, heads, generator=made)
    return [q, k, v * kind.size, g, beta if kind.beta is None else torch.full_like(beta, kind.beta)]


def limited_g(kind: Gates, g: Tensor, clamps: Clamps) -> Tensor:
    """Apply the limit of ``A_log``: exp of it is a factor of g."""
    if clamps.a_log is None or kind.a_log is None or abs(kind.a_log) <= clamps.a_log:
        return g
    limit = clamps.a_log if kind.a_log > 0 else -clamps.a_log
    return g * float(torch.tensor(limit - kind.a_log).exp())


def exact_with(clamps: Clamps, tensors: Sequence[Tensor], chunk: int = CHUNK) -> Tensor:
    """Compute the rule token by token in float64, with limits where the clamps put them."""
    q, k, v, g, beta = tensors
    tokens, heads, deep = v.shape
    q, k = (expand(unit(x), heads).double() for x in (q, k))
    g, v, beta = g.double(), v.double(), beta.double()
    if clamps.before_sum is not None:
        g = g.clamp(-clamps.before_sum, clamps.before_sum)
    now = torch.zeros(heads, q.shape[2], deep, dtype=torch.float64)
    out = torch.empty(tokens, heads, deep, dtype=torch.float64)
    total = before = torch.zeros(heads, dtype=torch.float64)
    for t in range(tokens):
        if t % chunk == 0:
            total = before = torch.zeros(heads, dtype=torch.float64)
        step = g[t]
        if clamps.after_sum is not None:
            total = total + step
            held = total.clamp(-clamps.after_sum, clamps.after_sum)
            step, before = held - before, held
        kept = step.exp()[:, None, None] * now
        new = beta[t, :, None] * (v[t] - torch.einsum("hkv,hk->hv", kept, k[t]))
        if clamps.substitution is not None:
            new = new.clamp(-clamps.substitution, clamps.substitution)
        now = kept + k[t, :, :, None] * new[:, None, :]
        at_end = clamps.state if t % chunk == chunk - 1 else None
        limit = clamps.decode_state if clamps.decode_state is not None else at_end
        if limit is not None:
            now = now.clamp(-limit, limit)
        out[t] = default_scale(q.shape[2]) * torch.einsum("hkv,hk->hv", now, q[t])
    return out


def away(found: Tensor, exact: Tensor) -> str:
    """Say how far two results are apart, or that one is not finite."""
    bad = float((~found.isfinite()).double().mean())
    if bad:
        return f"{bad:.0%} NaN/inf"
    distance = torch.linalg.vector_norm(found.double() - exact) / torch.linalg.vector_norm(exact)
    return f"{float(distance):.1e}"


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    print(f"\n{title}\n")
    for row in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(row) + " |")


def errors(tokens: int) -> None:
    """Print the first table."""
    rows = []
    for kind in KINDS:
        tensors = sequence(kind, tokens)
        exact = reference(*tensors).out
        q, k, v, g, beta = tensors
        split = factored(*tensors, clamps=NONE)[0]
        clamped = factored(q, k, v, limited_g(kind, g, ALL), beta, clamps=ALL)[0]
        states = torch.zeros(1, v.shape[1], q.shape[2], v.shape[2])
        steps = [decode(*(x[t, None] for x in tensors), states) for t in range(tokens)]
        rows.append(
            [
                kind.name,
                away(split, exact),
                away(clamped, exact),
                away(chunked(*tensors)[0], exact),
                away(torch.cat(steps), exact),
            ]
        )
    head = ("gates", "split formula", "split, five clamps", "ours, chunked", "ours, token by token")
    print_table(f"Error over {tokens} tokens, fp32, against float64", head, rows)


def clamps(tokens: int) -> None:
    """Print the second table."""
    rows = []
    for name, limits in CLAMPS.items():
        only = ALL.only(*limits)
        rest = ALL.only(*(n for other, names in CLAMPS.items() if other != name for n in names))
        changed, cured, missed = [], [], []
        for kind in KINDS:
            q, k, v, g, beta = sequence(kind, tokens)
            exact = exact_with(NONE, (q, k, v, g, beta))
            held = exact_with(only, (q, k, v, limited_g(kind, g, only), beta))
            distance = torch.linalg.vector_norm(held - exact) / torch.linalg.vector_norm(exact)
            if float(distance) > 1e-6:
                changed.append(f"{kind.name} ({float(distance):.2g})")
            if _finite(kind, (q, k, v, g, beta), NONE):
                continue
            if _finite(kind, (q, k, v, g, beta), only):
                cured.append(kind.name)
            if not _finite(kind, (q, k, v, g, beta), rest):
                missed.append(kind.name)
        rows.append([name, *("; ".join(x) or "none" for x in (cured, missed, changed))])
    head = (
        "clamp",
        "alone makes the split formula finite",
        "split formula not finite without it",
        "changes the exact answer of",
    )
    print_table("Clamps (ours needs none: it is finite in every row above)", head, rows)


def _finite(kind: Gates, tensors: Sequence[Tensor], limits: Clamps) -> bool:
    q, k, v, g, beta = tensors
    return bool(
        factored(q, k, v, limited_g(kind, g, limits), beta, clamps=limits)[0].isfinite().all()
    )


def times() -> None:
    """Print the third table."""
    ops = native_ops()
    if ops is None:
        print("\nvLLM's CPU kernels are not here; no times.")
        return
    rows = []
    for tokens in (64, 512, 2048):
        ours, native, same = prefill(ops, tokens)
        rows.append([f"prefill, {tokens} tokens", *paired(ours, native), same])
    rows += [[f"decode, {n} sequences", *paired(*decoding(ops, n)), "-"] for n in (1, 4)]
    head = (
        "16 key and 32 value heads of 128, bf16",
        "ours ms",
        "vLLM ms",
        "ours / vLLM",
        "apart by",
    )
    threads = torch.get_num_threads()
    print_table(f"Times, {threads} threads, medians of {ROUNDS} paired rounds", head, rows)


def native_ops() -> Any:
    """Return vLLM's operations where its CPU kernels are there."""
    try:
        from vllm import _custom_ops  # noqa: PLC0415 - not everywhere
        from vllm.platforms import current_platform  # noqa: PLC0415
    except ImportError:
        return None
    current_platform.import_kernels()
    if not hasattr(torch.ops._C, "chunk_gated_delta_rule_cpu"):  # noqa: SLF001 - where vLLM registers them
        return None
    torch.cpu._init_amx()  # noqa: SLF001 - Linux gives AMX to a process that asks, and kills one that does not
    return _custom_ops


def inputs(tokens: int) -> list[Tensor]:
    """Make the target's shapes: q and k with 16 heads, v with 32, of 128 each."""
    q, k = (torch.randn(tokens, 16, 128).bfloat16() for _ in range(2))
    v = torch.randn(tokens, 32, 128).bfloat16()
    return [q, k, v, -torch.rand(tokens, 32), torch.rand(tokens, 32)]


def prefill(ops: Any, tokens: int) -> tuple[Callable[[], Any], Callable[[], Any], str]:
    """Make both forms of a prompt, and say how far apart their results are."""
    q, k, v, g, beta = inputs(tokens)
    pool, slot = torch.zeros(2, 32, 128, 128), torch.tensor([0], dtype=torch.int32)
    ends = torch.tensor([0, tokens], dtype=torch.int32)

    def native() -> Tensor:
        pool.zero_()
        out, _ = ops.chunk_gated_delta_rule_cpu(
            query=q[None],
            key=k[None],
            value=v[None],
            g=g[None],
            beta=beta[None].bfloat16(),
            initial_state=pool,
            output_final_state=True,
            cu_seqlens=ends,
            head_first=False,
            use_qk_l2norm_in_kernel=True,
            initial_state_indices=slot,
        )
        return out[0]

    return (
        lambda: chunked(q, k, v, g, beta),
        native,
        away(native(), chunked(q, k, v, g, beta)[0].double()),
    )


def decoding(ops: Any, batch: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Make both forms of one token of each of several sequences."""
    q, k, v, g, beta = inputs(batch)
    pool, slots = torch.zeros(8, 32, 128, 128), torch.arange(batch, dtype=torch.int32)
    a, ends = torch.randn(batch, 32).bfloat16(), torch.arange(batch + 1, dtype=torch.int32)
    a_log, bias = torch.randn(32), torch.randn(32).bfloat16()

    def native() -> Tensor:
        return ops.fused_sigmoid_gating_delta_rule_update_cpu(
            A_log=a_log,
            dt_bias=bias,
            q=q[None],
            k=k[None],
            v=v[None],
            a=a,
            b=a,
            initial_state_source=pool,
            initial_state_indices=slots,
            cu_seqlens=ends,
            use_qk_l2norm_in_kernel=True,
        )

    return lambda: decode(q, k, v, g, beta, pool, slots), native


def paired(ours: Callable[[], Any], native: Callable[[], Any]) -> list[str]:
    """Time both in alternating order: medians in ms and the median of the rounds' ratios."""
    spent: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(ROUNDS + 1):
        for mine in (True, False) if turn % 2 else (False, True):
            began = time.perf_counter()
            (ours if mine else native)()
            if turn:
                spent[mine].append(time.perf_counter() - began)
    ratio = statistics.median(a / b for a, b in zip(spent[True], spent[False], strict=True))
    return [*(f"{1e3 * statistics.median(spent[m]):.2f}" for m in (True, False)), f"{ratio:.2f}"]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--no-times", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    errors(options.tokens)
    clamps(options.tokens)
    if not options.no_times:
        times()


if __name__ == "__main__":
    main()
