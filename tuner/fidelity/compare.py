"""Two tables and a rule become one answer: supported, rejected or indeterminate, and why.

A rule is rejected only by what was really seen: a choice that is worse by more than the noise, an
order that is wrong over enough pairs that can be told apart. Where the tables cannot show it, the
answer is indeterminate, which is no softer word for either.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tuner.errors import UserError
from tuner.fidelity import rank
from tuner.fidelity.pairing import Pairing, chosen_apart_from_best, pair, whole_loss
from tuner.fidelity.rank import Agreement, Floats, Mask, Regret, Signs, TauB
from tuner.fidelity.rule import Provenance, Rule
from tuner.fidelity.significance import Indices, Interval, PValue, bootstrap, one_sided_p
from tuner.fidelity.table import RawTable, keyed

Outcome = Literal["met", "failed", "open"]


class Answer(enum.StrEnum):
    """What a comparison comes to."""

    SUPPORTED = "supported"
    REJECTED = "rejected"
    INDETERMINATE = "indeterminate"


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing that the rule requires.

    Attributes:
        name: Its name in the rule.
        required: What the rule asks for, in words.
        found: What was found; None where it is not defined.
        outcome: ``met``, ``failed``, or ``open`` where the tables cannot show it.
        why: One sentence.
    """

    name: str
    required: str
    found: float | None
    outcome: Outcome
    why: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Every figure of a comparison.

    Attributes:
        tau_all: tau-b over all pairs.
        tau: tau-b over informative pairs.
        tau_interval: Its 95 % interval over configurations.
        p: One-sided p of ``tau``.
        signs_all: Pairs with the same sign, over all pairs.
        signs: The same over informative pairs.
        regret: Selection regret among the configurations that both tables have.
        loss: Worst-tie regret with those that did not run counted as a whole loss, and against the
            best real value, whether or not the proxy knew that configuration.
        regret_interval: 95 % interval of the worst-tie regret over configurations.
        top_k: Overlap of the best k, by k.
        levels: How many different values the proxy gives.
    """

    tau_all: TauB
    tau: TauB
    tau_interval: Interval | None
    p: PValue
    signs_all: Agreement
    signs: Agreement
    regret: Regret
    loss: float
    regret_interval: Interval | None
    top_k: Mapping[int, float]
    levels: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """A proxy held against the real thing by a rule.

    Attributes:
        answer: The answer.
        why: The reasons for it, one sentence each.
        rule: The rule.
        rule_source: Its file, hash and time.
        proxy_source: Where the proxy's values came from.
        real_source: Where the real values came from.
        rule_first: Whether the rule's file is older than both tables.
        criteria: Each thing that the rule requires.
        pairing: What was compared.
        figures: What came out; None where too little was in common.
    """

    answer: Answer
    why: tuple[str, ...]
    rule: Rule
    rule_source: Provenance
    proxy_source: Provenance
    real_source: Provenance
    rule_first: bool
    criteria: tuple[Criterion, ...]
    pairing: Pairing
    figures: Figures | None


def compare(proxy: RawTable, real: RawTable, rule: Rule, source: Provenance) -> Comparison:
    """Hold a proxy against the real thing.

    Args:
        proxy: The proxy's table, or the cheaper level's.
        real: The real table.
        rule: What must hold.
        source: Where the rule came from.

    Raises:
        UserError: When a column is missing or no configuration is in both tables.
    """
    name = rule.proxy_value or rule.value
    key = rule.key or _shared_columns(proxy, real, {rule.value, name})
    pairing = pair(keyed(proxy, key, name), keyed(real, key, rule.value), rule)
    figures = _figures(pairing, rule) if len(pairing.keys) > 1 else None
    criteria = _criteria(pairing, figures, rule) if figures else ()
    answer, why = _answer(pairing, criteria)
    return Comparison(
        answer=answer,
        why=why,
        rule=rule,
        rule_source=source,
        proxy_source=proxy.source,
        real_source=real.source,
        rule_first=source.modified <= min(proxy.source.modified, real.source.modified),
        criteria=criteria,
        pairing=pairing,
        figures=figures,
    )


def _shared_columns(proxy: RawTable, real: RawTable, values: set[str]) -> tuple[str, ...]:
    shared = tuple(c for c in real.columns if c in set(proxy.columns) - values)
    if not shared:
        raise UserError(
            "the two tables share no column that could name a configuration",
            mend=f"columns of A: {', '.join(proxy.columns)}; of B: {', '.join(real.columns)}",
        )
    return shared


def _figures(pairing: Pairing, rule: Rule) -> Figures:
    real, proxy = pairing.real, pairing.proxy
    mask = pairing.informative
    tops = {3, rule.require.top_k.k} if rule.require.top_k else {3}
    return Figures(
        tau_all=rank.tau_b(real, proxy),
        tau=rank.tau_b(real, proxy, mask),
        tau_interval=_tau_interval(rank.signs(real), rank.signs(proxy), mask),
        p=one_sided_p(real, proxy, mask),
        signs_all=rank.pair_agreement(real, proxy),
        signs=rank.pair_agreement(real, proxy, mask),
        regret=rank.selection_regret(real, proxy),
        loss=whole_loss(pairing),
        regret_interval=_regret_interval(real, proxy),
        top_k={k: rank.top_k_overlap(real, proxy, k) for k in sorted(tops) if k <= len(real)},
        levels=rank.levels(proxy),
    )


def _tau_interval(real: Signs, proxy: Signs, mask: Mask) -> Interval | None:
    def drawn(draw: Indices) -> float | None:
        both = np.ix_(draw, draw)
        chosen = mask[both]
        return rank.tau_of_signs(real[both], proxy[both], chosen)[0] if chosen.any() else None

    return bootstrap(drawn, len(real))


def _regret_interval(real: Floats, proxy: Floats) -> Interval | None:
    def drawn(draw: Indices) -> float | None:
        mine = real[draw]
        best = float(mine.max())
        held = proxy[draw]
        return (best - float(mine[held == held.max()].min())) / abs(best) if best else None

    return bootstrap(drawn, len(real))


def _criteria(pairing: Pairing, figures: Figures, rule: Rule) -> tuple[Criterion, ...]:
    asked = rule.require
    found = [
        _pairs(pairing, figures, asked.pairs),
        _levels(figures, asked.levels),
        _tau(figures, asked.tau_b, asked.pairs),
        _p(figures, asked.p),
        _regret(pairing, figures, asked.regret),
    ]
    if asked.pair_signs is not None:
        found.append(_signs(figures, asked.pair_signs, asked.pairs))
    if asked.top_k is not None:
        found.append(_top_k(figures, asked.top_k.k, asked.top_k.overlap))
    return tuple(found)


def _pairs(pairing: Pairing, figures: Figures, least: int) -> Criterion:
    count = figures.signs.pairs
    of = f"{count} of {figures.signs_all.pairs} pairs"
    if pairing.sigma is None:
        return Criterion(
            "pairs",
            f">= {least}",
            None,
            "open",
            "the noise of one measurement is not known: no configuration was measured twice",
        )
    why = f"{of} differ by more than the noise ({pairing.sigma:.1%} a measurement)"
    return Criterion("pairs", f">= {least}", count, "met" if count >= least else "open", why)


def _levels(figures: Figures, least: int) -> Criterion:
    why = f"the proxy gives {figures.levels} different values"
    outcome: Outcome = "met" if figures.levels >= least else "open"
    return Criterion("levels", f">= {least}", figures.levels, outcome, why)


def _tau(figures: Figures, least: float, pairs: int) -> Criterion:
    tau = figures.tau
    why = (
        f"{tau.concordant} informative pairs are ordered rightly, {tau.discordant} wrongly, "
        f"{tau.tied_proxy} not at all; ties allow {tau.ceiling:.3f} at most"
    )
    outcome: Outcome = "met" if tau.value >= least else "failed"
    if tau.pairs < pairs or (
        outcome == "failed" and 0 < tau.ceiling < least and not tau.discordant
    ):
        outcome = "open"
    return Criterion("tau_b", f">= {least:g}", tau.value, outcome, why)


def _p(figures: Figures, most: float) -> Criterion:
    why = f"chance alone orders as well with probability {figures.p.value:.2g} ({figures.p.method})"
    outcome: Outcome = "met" if figures.p.value <= most else "open"
    return Criterion("p", f"<= {most:g}", figures.p.value, outcome, why)


def _regret(pairing: Pairing, figures: Figures, most: float) -> Criterion:
    loss, chosen = figures.loss, figures.regret.chosen
    ties = f", the worst of {len(chosen)} that it ties" if len(chosen) > 1 else ""
    why = f"what the proxy takes for best{ties} is {loss:.2%} below the real best"
    outcome: Outcome = "met" if loss <= most else "failed"
    if outcome == "failed" and not chosen_apart_from_best(pairing):
        outcome, why = "open", f"{why}, which the noise alone could make"
    return Criterion("regret", f"<= {most:g}", loss, outcome, why)


def _signs(figures: Figures, least: float, pairs: int) -> Criterion:
    rate = figures.signs.rate
    why = f"{figures.signs.right} of {figures.signs.pairs} informative pairs have the right sign"
    outcome: Outcome = "met" if rate is not None and rate >= least else "failed"
    if figures.signs.pairs < pairs:
        outcome = "open"
    return Criterion("pair_signs", f">= {least:g}", rate, outcome, why)


def _top_k(figures: Figures, k: int, least: float) -> Criterion:
    if k not in figures.top_k:
        why = f"there are fewer than {k} configurations"
        return Criterion("top_k", f"{k}: >= {least:g}", None, "open", why)
    overlap = figures.top_k[k]
    why = f"{round(overlap * k)} of the real best {k} are among the proxy's"
    outcome: Outcome = "met" if overlap >= least else "failed"
    return Criterion("top_k", f"{k}: >= {least:g}", overlap, outcome, why)


def _answer(pairing: Pairing, criteria: tuple[Criterion, ...]) -> tuple[Answer, tuple[str, ...]]:
    if not criteria:
        why = f"only {len(pairing.keys)} configuration has a value in both tables"
        return Answer.INDETERMINATE, (why,)
    failed = [f"{c.name} {c.required}: {c.why}" for c in criteria if c.outcome == "failed"]
    if failed:
        return Answer.REJECTED, tuple(failed)
    still_open = [f"{c.name} {c.required}: {c.why}" for c in criteria if c.outcome == "open"]
    if still_open:
        return Answer.INDETERMINATE, tuple(still_open)
    return Answer.SUPPORTED, ("everything that the rule requires holds",)
