"""What a proxy has shown so far: the evidence on which the gate opens and closes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tuner.fidelity import rank
from tuner.fidelity.calibrate import Anchor, left_out, left_out_signs, typical_error
from tuner.fidelity.rank import Floats, Mask, Signs
from tuner.fidelity.significance import Indices, Interval, bootstrap, p_of_signs

Standing = Literal["earned", "wrong", "unproven"]
_SAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What a proxy must show, and what it may do then.

    Attributes:
        anchors: Fewest points with a prediction and a real value.
        pairs: Fewest informative pairs.
        levels: Fewest different predictions among the anchors.
        tau_b: Lowest tau-b over informative pairs.
        p: Highest one-sided p-value.
        regret: Highest worst-tie regret among the anchors.
        keep: Part of the predicted points that runs in any case, the best first.
        margin: What is predicted within this part of the best runs in any case.
        audit_every: Each so many real trials, one is drawn from the deferred.
        misses: So many points in a row that the proxy put first and that ended early, all below what
            it said of them, close the gate.
    """

    anchors: int = 6
    pairs: int = 8
    levels: int = 4
    tau_b: float = 0.8
    p: float = 0.05
    regret: float = 0.05
    keep: float = 0.25
    margin: float = 0.05
    audit_every: int = 7
    misses: int = 3


@dataclass(frozen=True, slots=True)
class Assessment:
    """What a proxy has shown on calibrations that left out what they were tested on.

    Attributes:
        standing: ``earned``: everything holds. ``wrong``: enough was seen, and it does not hold.
            ``unproven``: too little was seen.
        why: One sentence.
        points: Points with a prediction and a real value.
        pairs: Informative pairs among them.
        tau: tau-b over these.
        p: One-sided p of it; None where tau-b or the pairs do not reach their limits already.
        regret: Worst-tie regret among the points.
        error: Mean absolute error of the predictions, as a part of the value; None below two points.
        pair_signs: Part of the informative pairs with the right sign; None where there are none.
        top_3: Overlap of the best three; None below three points.
    """

    standing: Standing
    why: str
    points: int
    pairs: int = 0
    tau: float = 0.0
    p: float | None = None
    regret: float = 1.0
    error: float | None = None
    pair_signs: float | None = None
    top_3: float | None = None

    def as_json(self) -> dict[str, Any]:
        """The assessment as JSON-ready data."""
        names = ("standing", "why", "points", "pairs", "tau", "p", "regret", "error")
        return {name: getattr(self, name) for name in (*names, "pair_signs", "top_3")}


def assess(
    anchors: Sequence[Anchor],
    counts: Sequence[int],
    *,
    sigma: float | None,
    layouts: Collection[str],
    limits: Limits,
    ended: Sequence[Anchor] = (),
) -> Assessment:
    """Judge a proxy by the points that were measured.

    Of a point that was ended early only an upper bound is known. It counts in the pairs whose order
    is certain by that: those with points that came to more.

    Args:
        anchors: Points with a prediction and a real value.
        counts: How often each was measured.
        sigma: Relative deviation of one measurement; None where nothing was measured twice.
        layouts: Every layout that has predictions.
        limits: What must hold.
        ended: Points that were ended early; what they ``measured`` is the bound.
    """
    missing = _missing(anchors, sigma, layouts, limits)
    if missing is not None or sigma is None:
        return Assessment("unproven", missing or "", len(anchors))
    measured = np.array([a.measured for a in anchors])
    signs, mask = _pairs(anchors, counts, sigma, ended)
    ordered = left_out_signs(anchors, sigma, ended)
    tau, counted = rank.tau_of_signs(signs, ordered, mask)
    pairs = int(mask.sum()) // 2
    predicted = left_out(anchors, sigma)
    regret = _regret(anchors, measured, predicted)
    reached = pairs >= limits.pairs and tau >= limits.tau_b
    p = p_of_signs(signs, ordered, mask, samples=_SAMPLES).value if reached else None
    standing, why = _standing(pairs, tau, p, regret, limits)
    return Assessment(
        standing=standing,
        why=why,
        points=len(anchors),
        pairs=pairs,
        tau=tau,
        p=p,
        regret=regret,
        error=typical_error(anchors, sigma),
        pair_signs=counted[0] / pairs if pairs else None,
        top_3=rank.top_k_overlap(measured, predicted, 3),
    )


def _pairs(
    anchors: Sequence[Anchor], counts: Sequence[int], sigma: float, ended: Sequence[Anchor]
) -> tuple[Signs, Mask]:
    """The real order of all pairs, and which of them are known to be in it."""
    real = np.array([a.measured for a in (*anchors, *ended)])
    often = np.array([*counts, *[1] * len(ended)])
    signs, mask = rank.signs(real), rank.informative_pairs(real, sigma * real / np.sqrt(often))
    bound = np.arange(real.size) >= len(anchors)
    open_above = bound[:, None] & ((signs > 0) | bound[None, :])
    return signs, mask & ~(open_above | open_above.T)


def _missing(
    anchors: Sequence[Anchor], sigma: float | None, layouts: Collection[str], limits: Limits
) -> str | None:
    """What keeps the points from showing anything at all."""
    if len(anchors) < limits.anchors:
        return f"{len(anchors)} of at least {limits.anchors} anchors were measured"
    if sigma is None:
        return "no point was measured twice, so the noise is not known"
    bare = sorted(set(layouts) - {a.layout for a in anchors})
    if bare:
        return f"no anchor covers the layout {bare[0]}"
    if len({a.predicted for a in anchors}) < limits.levels:
        return f"the proxy tells fewer than {limits.levels} of the anchors apart"
    return None


def _regret(anchors: Sequence[Anchor], measured: Floats, predicted: Floats) -> float:
    """Worst-tie regret; points of one layout with one raw prediction are a tie."""
    top = anchors[int(np.argmax(predicted))]
    tied = [
        value
        for a, value, guess in zip(anchors, measured, predicted, strict=True)
        if guess >= predicted.max() or (a.layout, a.predicted) == (top.layout, top.predicted)
    ]
    best = float(measured.max())
    return (best - float(min(tied))) / best


def _standing(
    pairs: int, tau: float, p: float | None, regret: float, limits: Limits
) -> tuple[Standing, str]:
    if pairs < limits.pairs:
        return "unproven", f"{pairs} of at least {limits.pairs} pairs differ by more than the noise"
    if p is None:
        return "wrong", f"tau-b {tau:.2f} over {pairs} informative pairs is below {limits.tau_b:g}"
    if regret > limits.regret:
        return "wrong", f"its choice among the anchors is {regret:.1%} below the best"
    if p >= limits.p:
        return "unproven", f"chance alone orders as well with probability {p:.2g}"
    return "earned", f"tau-b {tau:.2f} over {pairs} informative pairs, regret {regret:.1%}"


def tau_interval(anchors: Sequence[Anchor], counts: Sequence[int], sigma: float) -> Interval | None:
    """95 % interval of the tau-b over configurations, for reports."""
    measured = np.array([a.measured for a in anchors])
    mask: Mask = rank.informative_pairs(measured, sigma * measured / np.sqrt(np.array(counts)))
    signs, ordered = rank.signs(measured), left_out_signs(anchors, sigma)

    def drawn(draw: Indices) -> float | None:
        both = np.ix_(draw, draw)
        chosen = mask[both]
        return rank.tau_of_signs(signs[both], ordered[both], chosen)[0] if chosen.any() else None

    return bootstrap(drawn, len(anchors))


def noise(values: Mapping[str, Sequence[float]]) -> float | None:
    """Relative deviation of one measurement, from points measured more than once; None without."""
    squares = freedom = 0.0
    for repeats in values.values():
        logs = np.log(np.array(repeats))
        squares += float(((logs - logs.mean()) ** 2).sum())
        freedom += len(repeats) - 1
    return float(np.sqrt(squares / freedom)) if freedom else None
