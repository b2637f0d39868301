"""How long one engine step takes: a sum of few terms, fitted to steps that really ran.

A step is taken as a whole, with its prefill and its decode sequences together: what the parts cost
alone, measured in isolation, does not add up to what they cost in one step. All coefficients are at
least 0, so that no term can buy a better fit by being paid back for work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar, nnls

from tuner.fidelity.rank import Floats

Mode = Literal["decode", "mixed", "eager"]
TERMS = (
    "decode step",  # a step of decode sequences alone, which runs as one graph where there are any
    "mixed step",  # a step with prefill, which runs in pieces or eagerly
    "eager step",  # any step of an engine without graphs
    "prefill tokens",
    "prefill attention",
    "decode sequences",
    "KV tokens read",
    "all-reduce",
    "experts",
)

_MOST_SKEW = 4.0
"""More than any router: the second expert has then a sixteenth of the first one's share."""


class Batch(NamedTuple):
    """What one step holds.

    Attributes:
        prefill_tokens: Tokens of prompts, computed and not cached.
        prefill_work: For each of them the tokens that it attends to, added up.
        decode_seqs: Sequences that get one token.
        kv_tokens: Tokens that these attend to, added up.
    """

    prefill_tokens: int
    prefill_work: float
    decode_seqs: int
    kv_tokens: float

    @property
    def tokens(self) -> int:
        """Tokens that go through the layers."""
        return self.prefill_tokens + self.decode_seqs


@dataclass(frozen=True, slots=True)
class Routing:
    """How tokens are routed to experts.

    Attributes:
        experts: Experts of a layer; 0 for a dense model.
        top_k: Experts of a token.
        skew: Exponent of the popularity of experts: the n-th has a share like ``n ** -skew``.
    """

    experts: int = 0
    top_k: int = 0
    skew: float = 0.0

    def touched(self, tokens: int) -> float:
        """Distinct experts that so many tokens touch, on average."""
        if self.experts == 0 or tokens == 0:
            return 0.0
        shares = np.arange(1, self.experts + 1, dtype=np.float64) ** -self.skew
        shares /= shares.sum()
        # A token takes top_k different experts; each is among them with about this chance.
        chance = np.minimum(1.0, shares * self.top_k)
        return float((1 - (1 - chance) ** tokens).sum())


@dataclass(frozen=True, slots=True)
class Setting:
    """What of an engine decides how its steps run.

    Attributes:
        layout: Its name; steps of different layouts are never fitted together.
        variant: The kernel variants; likewise.
        tensor_parallel: Ranks that share a layer.
        eager: Whether the engine runs without graphs.
        routing: How tokens are routed.
    """

    layout: str
    variant: str = ""
    tensor_parallel: int = 1
    eager: bool = False
    routing: Routing = Routing()

    def mode(self, batch: Batch) -> Mode:
        """How a step runs."""
        if self.eager:
            return "eager"
        return "mixed" if batch.prefill_tokens else "decode"


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step that really ran.

    Attributes:
        batch: What it held.
        seconds: How long it took.
        experts: Distinct experts of a layer that it touched; None where nobody saw it.
    """

    batch: Batch
    seconds: float
    experts: int | None = None


class Terms:
    """Turns batches into the columns of :data:`TERMS`.

    Args:
        setting: The engine.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._touched: dict[int, float] = {}

    def of(self, batch: Batch) -> tuple[float, ...]:
        """The columns of one step."""
        mode = self._setting.mode(batch)
        ranks = self._setting.tensor_parallel
        return (
            float(mode == "decode"),
            float(mode == "mixed"),
            float(mode == "eager"),
            batch.prefill_tokens,
            batch.prefill_work,
            batch.decode_seqs,
            batch.kv_tokens,
            batch.tokens * (ranks - 1) / ranks,
            self._experts(batch.tokens),
        )

    def _experts(self, tokens: int) -> float:
        if tokens not in self._touched:
            self._touched[tokens] = self._setting.routing.touched(tokens)
        return self._touched[tokens]


@dataclass(frozen=True, slots=True)
class Seen:
    """The steps that a model was fitted to.

    Attributes:
        steps: How many.
        fewest: The fewest tokens of one.
        most: The most in each figure.
    """

    steps: int
    fewest: int
    most: Batch

    def covers(self, batch: Batch) -> bool:
        """Whether a step is no smaller and no larger than those; a tenth beyond is still near."""
        return self.fewest * 0.9 <= batch.tokens and all(
            mine <= most * 1.1 for mine, most in zip(batch, self.most, strict=True)
        )


class StepModel:
    """Seconds of a step, for one layout and kernel variant.

    Args:
        setting: The engine.
        seconds: Seconds per unit of each term, in the order of :data:`TERMS`.
        seen: What it was fitted to; None where it was written by hand.
        routing: How tokens were seen to be routed; None for the setting's own.
    """

    def __init__(
        self,
        setting: Setting,
        seconds: Mapping[str, float],
        seen: Seen | None = None,
        routing: Routing | None = None,
    ) -> None:
        unknown = set(seconds) - set(TERMS)
        if unknown:
            raise ValueError(f"no such term: {min(unknown)}")
        self.setting = setting
        self.seconds = {name: float(seconds.get(name, 0.0)) for name in TERMS}
        self.seen = seen
        self.routing = setting.routing if routing is None else routing
        self._terms = Terms(replace(setting, routing=self.routing))
        self._weights = tuple(self.seconds.values())
        self._growth = self.seconds["KV tokens read"]

    def step(self, batch: Batch) -> float:
        """Seconds of one step."""
        return sum(w * t for w, t in zip(self._weights, self._terms.of(batch), strict=True) if w)

    def growth(self, batch: Batch) -> float:
        """Seconds by which the next step of the same decode sequences is longer."""
        return self._growth * batch.decode_seqs


def fit_steps(setting: Setting, records: Sequence[StepRecord]) -> StepModel:
    """Fit a model to steps of one layout and kernel variant.

    Where records say which experts a step touched, the skew of the routing is theirs too.

    Args:
        setting: The engine that ran them.
        records: At least one step, each of more than 0 seconds.
    """
    routing = routed(setting.routing, records)
    terms = Terms(replace(setting, routing=routing))
    rows = np.array([terms.of(record.batch) for record in records])
    seconds = np.array([record.seconds for record in records])
    batches = [record.batch for record in records]
    return StepModel(setting, solve(rows, seconds), seen(batches), routing)


def routed(assumed: Routing, records: Sequence[StepRecord]) -> Routing:
    """The routing with the skew that explains best, by least squares, which experts steps touched.

    Args:
        assumed: Experts and top-k of the model, and the skew where no step was seen.
        records: Steps; those that do not say what they touched say nothing here.
    """
    touched: dict[int, list[int]] = {}
    for record in records:
        if record.experts is not None and record.batch.tokens:
            touched.setdefault(record.batch.tokens, []).append(record.experts)
    if not assumed.experts or not touched:
        return assumed
    means = {tokens: sum(counts) / len(counts) for tokens, counts in touched.items()}

    def lacks(skew: float) -> float:
        routing = replace(assumed, skew=skew)
        return sum(
            len(touched[tokens]) * (routing.touched(tokens) - mean) ** 2
            for tokens, mean in means.items()
        )

    best = minimize_scalar(lacks, bounds=(0.0, _MOST_SKEW), method="bounded")
    return replace(assumed, skew=float(best.x))


def seen(batches: Sequence[Batch]) -> Seen:
    """The range of some batches."""
    most = Batch(*(max(column) for column in zip(*batches, strict=True)))
    return Seen(len(batches), min(batch.tokens for batch in batches), most)


def solve(rows: Floats, seconds: Floats) -> dict[str, float]:
    """Seconds per unit of each term, none below 0, with the least relative error.

    Args:
        rows: One step each, or the sum over one trial's steps; the columns are :data:`TERMS`.
        seconds: What each took.

    Raises:
        ValueError: When there is no row, or one took no time.
    """
    if rows.size == 0 or not (seconds > 0).all():
        raise ValueError("a fit needs steps, each of more than 0 seconds")
    weighted = rows / seconds[:, None]
    # Columns differ by ten orders of magnitude; unscaled, the solver takes the small ones for 0.
    scale = np.where(weighted.any(axis=0), np.abs(weighted).max(axis=0), 1.0)
    solution, _ = nnls(weighted / scale, np.ones(len(seconds)))
    found = solution / scale
    # The least relative error lies below the mean where errors are skewed, as those of times are;
    # what counts here is the sum over many steps, so that is kept.
    total = float((rows @ found).sum())
    found *= seconds.sum() / total if total else 1.0
    return dict(zip(TERMS, found.tolist(), strict=True))
