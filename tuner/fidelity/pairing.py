"""The configurations that two tables share, side by side, with what is known of the noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tuner.errors import UserError
from tuner.fidelity import rank
from tuner.fidelity.rank import Floats, Mask
from tuner.fidelity.rule import Rule
from tuner.fidelity.table import Key, Table


@dataclass(frozen=True, slots=True)
class Pairing:
    """The configurations that both tables have, higher being better in both columns.

    Attributes:
        keys: Configurations with a value in both, in a fixed order.
        real: Mean real value of each.
        proxy: Mean proxy value of each.
        sigma: Deviation of one real measurement as a part of its value; None where nobody knows.
        deviation: Standard deviation of each real mean; None without sigma.
        repeats: Configurations that the real table has more than once.
        dead: Configurations that did not run, with what the proxy says of them.
        unseen: Configurations that ran and of which the proxy says nothing, with their real value.
        only: Configurations that one of the tables does not have at all.
    """

    keys: tuple[Key, ...]
    real: Floats
    proxy: Floats
    sigma: float | None
    deviation: Floats | None
    repeats: int
    dead: Mapping[Key, float]
    unseen: Mapping[Key, float]
    only: int

    @property
    def informative(self) -> Mask:
        """The pairs that differ by more than noise; none where the noise is not known."""
        if self.deviation is None:
            return np.zeros((len(self.keys), len(self.keys)), dtype=np.bool_)
        return rank.informative_pairs(self.real, self.deviation)


def pair(proxy: Table, real: Table, rule: Rule) -> Pairing:
    """Bring two tables together, both with higher as better.

    Raises:
        UserError: When no configuration is in both.
    """
    sign = 1.0 if rule.better == "higher" else -1.0
    common = [key for key in real.rows if key in proxy.rows]
    if not common:
        raise UserError(
            "no configuration is in both tables",
            mend="name the columns that make a configuration under `key` in the rule",
        )
    ran = [key for key in common if real.rows[key]]
    both = tuple(key for key in ran if proxy.rows[key])
    if not any(value for key in ran for value in real.rows[key]):
        raise UserError("no configuration has a real value other than 0")
    sigma = _sigma(real) if rule.noise == "repeats" else rule.noise
    means = np.array([np.mean(real.rows[key]) for key in both])
    counts = np.array([len(real.rows[key]) for key in both])
    return Pairing(
        keys=both,
        real=sign * means,
        proxy=sign * np.array([np.mean(proxy.rows[key]) for key in both]),
        sigma=sigma,
        deviation=None if sigma is None else sigma * np.abs(means) / np.sqrt(counts),
        repeats=sum(len(values) > 1 for values in real.rows.values()),
        dead={
            key: sign * float(np.mean(proxy.rows[key]))
            for key in common
            if not real.rows[key] and proxy.rows[key]
        },
        unseen={key: sign * float(np.mean(real.rows[key])) for key in ran if not proxy.rows[key]},
        only=len(real.rows.keys() ^ proxy.rows.keys()),
    )


def _sigma(real: Table) -> float | None:
    """Pooled relative deviation over the configurations that were measured more than once."""
    squares = freedom = 0.0
    for values in real.rows.values():
        mean = float(np.mean(values)) if len(values) > 1 else 0.0
        if mean:
            squares += sum((value / mean - 1) ** 2 for value in values)
            freedom += len(values) - 1
    return math.sqrt(squares / freedom) if freedom else None


def whole_loss(pairing: Pairing) -> float:
    """Worst-tie regret over everything that the proxy could have chosen or missed.

    To choose a configuration that does not run is to lose everything. A configuration that ran and
    of which the proxy says nothing can be the real best, but never the proxy's.
    """
    top = max(float(pairing.proxy.max()), *pairing.dead.values(), -math.inf)
    if top in pairing.dead.values():
        return 1.0
    best = max(float(pairing.real.max()), *pairing.unseen.values(), -math.inf)
    return (best - float(pairing.real[pairing.proxy >= top].min())) / abs(best)


def chosen_apart_from_best(pairing: Pairing) -> bool:
    """Whether the proxy's choice is below the real best by more than the noise makes."""
    if pairing.deviation is None:
        return False
    top = float(pairing.proxy.max())
    if any(value >= top for value in pairing.dead.values()):
        return True
    tied = np.flatnonzero(pairing.proxy >= top)
    worst = tied[int(np.argmin(pairing.real[tied]))]
    best = int(np.argmax(pairing.real))
    values, deviations = pairing.real, pairing.deviation
    unseen = max(pairing.unseen.values(), default=-math.inf)
    if unseen > values[best]:
        noise = (pairing.sigma or 0.0) * abs(unseen)
        values, deviations = np.append(values, unseen), np.append(deviations, noise)
        best = len(values) - 1
    return bool(rank.informative_pairs(values, deviations)[worst, best])
