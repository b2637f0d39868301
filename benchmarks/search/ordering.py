"""What a proxy that may act does to whole studies: right ones and wrong ones, on and off.

The studies are the tuner's own, in a real ledger, with trials that take no time: 72 points in two
layouts, 1 % noise, TPE, 40 trials. *Within 2 %* counts the trials of the search until one of them is
truly within 2 % of the best there is.

Usage: python -m benchmarks.search.ordering [--studies 20]
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.trial.climbs import truth
from tests.trial.ordered import Ran, run
from tests.trial.proxies import Says, drifting, good, hiding, inverted, layout_biased, tied
from tuner.fidelity.evidence import Mode

PROXIES: dict[str, Says] = {
    "right but for 2 %": good,
    "inverted": inverted,
    "tied throughout": tied,
    "turned round in the best layout": layout_biased,
    "turned round after 12 trials": drifting,
    "right, but hides the best six": hiding,
}
SEQS, BATCH, MOE = (1, 2, 4, 8, 16, 32), (256, 512, 1024, 2048, 4096, 8192), ("native", "loop")
BEST = max(
    truth({"seqs": seqs, "batch": batch, "moe": moe})
    for seqs, batch, moe in itertools.product(SEQS, BATCH, MOE)
)
MOST = 40


def studies(says: Says, proxy: str, count: int) -> Iterator[Ran]:
    """Studies of one proxy, one a seed."""
    for seed in range(1, count + 1):
        with tempfile.TemporaryDirectory() as folder:
            asked: dict[str, Any] = {
                "most": MOST,
                "sampler": "startup: 6",
                "seed": seed,
                "proxy": proxy,
            }
            yield run(Path(folder), says, sigma=0.01, **asked)


def to_2(done: Ran) -> int:
    """Trials of the search until one is truly within 2 % of the best; one more than all where none is."""
    near = [truth(t.params) >= 0.98 * BEST for t in done.searched]
    return near.index(True) + 1 if any(near) else MOST + 1


def trusted(done: Ran) -> int:
    """Trials while the gate was open."""
    opened = [e.data["after"] for e in done.did("opened")]
    ended = sorted(e.data["after"] for what in ("doubted", "closed") for e in done.did(what))
    ended += [len(done.gate.observations)] * (len(opened) - len(ended))
    return sum(end - begin for begin, end in zip(opened, ended, strict=False))


def regret(done: Ran) -> float:
    """How far the declared winner is below the best."""
    return 1 - truth(done.winner or {}) / BEST


def main() -> None:
    """Print one row a proxy, after one without."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=20)
    count = parser.parse_args().studies
    print(
        "| proxy | opened | trials while trusted: mean, most | trusted at the end | audits "
        "| within 2 % after: quartiles | winner's regret: mean, most |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    _row("none", list(studies(good, "off", count)))
    for name, says in PROXIES.items():
        _row(name, list(studies(says, "on", count)))


def _row(name: str, done: list[Ran]) -> None:
    opened = np.mean([d.gate.opened is not None for d in done])
    still = np.mean([d.gate.mode is Mode.ON for d in done])
    on = np.array([trusted(d) for d in done])
    audits = np.mean([len(d.did("audit")) for d in done])
    low, middle, high = np.percentile([to_2(d) for d in done], [25, 50, 75])
    lost = np.array([regret(d) for d in done])
    print(
        f"| {name} | {opened:.0%} | {on.mean():.1f}, {on.max()} | {still:.0%} | {audits:.1f} "
        f"| {low:.0f} / {middle:.0f} / {high:.0f} | {lost.mean():.1%}, {lost.max():.1%} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
