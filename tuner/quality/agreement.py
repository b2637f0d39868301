"""How far two engines' answers are apart, and whether that is still the same answer. Pure functions.

Kernels that compute the same thing add in another order, and in 16 bits that moves a log-probability
by some thousandths. Where two tokens are nearly as likely, that decides which of them is taken, and
the texts part there. So texts alone cannot tell rounding from a mistake: the distance can. Up to the
place where two answers part it is the difference of the log-probabilities of the tokens, and at that
place the lead that either engine gives its own token over the other's. What comes after stands in
another context and is not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.quality.answers import Sheet, Spoken
from tuner.spec.quality import Answers

SINGLE = 10.0
"""No single token may be off by more than this many times the tolerance of the mean."""

_UNNAMED = 10.0
"""The difference, in nats, where an answer ends without a token that could be compared."""


@dataclass(frozen=True, slots=True)
class Distance:
    """One answer against the reference's.

    Attributes:
        places: The differences in nats, place by place, the one where they part included.
        parted: The place at which the tokens differ; None where all are the same.
    """

    places: tuple[float, ...]
    parted: int | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """A sheet of answers against the reference's.

    Attributes:
        compared: How many answers were compared.
        same: How many of them have the same text.
        mean: Mean difference in nats over all places; None without log-probabilities.
        worst: The largest difference in nats; None without log-probabilities.
        where: The answer with the largest difference.
        problem: Why these are not the reference's answers; None where they are.
    """

    compared: int
    same: int
    mean: float | None
    worst: float | None
    where: str | None
    problem: str | None

    def as_json(self) -> dict[str, Any]:
        """The agreement as JSON-ready data."""
        return {
            "compared": self.compared,
            "same": self.same,
            "mean": None if self.mean is None else round(self.mean, 6),
            "worst": None if self.worst is None else round(self.worst, 6),
            "where": self.where,
            "problem": self.problem,
        }


def distance(mine: Spoken, reference: Spoken) -> Distance:
    """How far an answer is from the reference's, where both have log-probabilities."""
    places: list[float] = []
    for at, (one, other) in enumerate(zip(mine.tokens, reference.tokens, strict=False)):
        if one == other:
            places.append(abs(mine.logprobs[at] - reference.logprobs[at]))
            continue
        places.append(max(_lead(mine, at, other), _lead(reference, at, one)))
        return Distance(tuple(places), at)
    if len(mine.tokens) == len(reference.tokens):
        return Distance(tuple(places), None)
    # One ended where the other went on, and did not even name the token that ended it.
    return Distance((*places, _UNNAMED), len(places))


def _lead(spoken: Spoken, at: int, other: str) -> float:
    """By how much an engine finds its own token likelier than the other's, at least."""
    likely = spoken.likely[at]
    least = min(likely.values(), default=spoken.logprobs[at])
    return max(0.0, spoken.logprobs[at] - likely.get(other, least))


def agree(mine: Sheet, reference: Sheet, rule: Answers) -> Agreement:
    """Whether answers are the reference's to the degree that a search space declares.

    Args:
        mine: The answers in question.
        reference: The baseline's.
        rule: The degree.
    """
    pairs = {name: (mine[name], reference[name]) for name in mine if name in reference}
    if rule.match == "distance":
        return _by_distance(pairs, rule.tolerance)
    problem = None
    for name, (one, other) in pairs.items():
        if problem is None and not _same(one, other, rule):
            what = "answer" if rule.match == "exact" else f"first {rule.first} tokens"
            problem = f"{name}: the {what} {_start(one)!r}, and the baseline's {_start(other)!r}"
    return Agreement(len(pairs), _equal(pairs), None, None, None, problem)


def _same(one: Spoken, other: Spoken, rule: Answers) -> bool:
    if rule.match == "exact":
        return one.text == other.text
    return one.tokens[: rule.first] == other.tokens[: rule.first]


def _start(spoken: Spoken) -> str:
    return spoken.text if len(spoken.text) <= 60 else f"{spoken.text[:57]}…"


def _equal(pairs: Mapping[str, tuple[Spoken, Spoken]]) -> int:
    return sum(one.text == other.text for one, other in pairs.values())


def _by_distance(pairs: Mapping[str, tuple[Spoken, Spoken]], tolerance: float) -> Agreement:
    found = {name: distance(*pair) for name, pair in pairs.items()}
    every = [gap for one in found.values() for gap in one.places]
    if not every:
        return Agreement(len(pairs), _equal(pairs), None, None, None, None)
    mean = sum(every) / len(every)
    where = max((n for n in found if found[n].places), key=lambda n: max(found[n].places))
    worst = max(found[where].places)
    problem = None
    if not (mean <= tolerance and worst <= SINGLE * tolerance):  # so that NaN is a problem too
        problem = (
            f"log-probabilities differ from the baseline's by {mean:.3g} nats in the mean "
            f"({tolerance:g} allowed) and {worst:.3g} at most ({SINGLE * tolerance:g} allowed), "
            f"most in {where}: {_start(pairs[where][0])!r}, and the baseline's "
            f"{_start(pairs[where][1])!r}"
        )
    return Agreement(len(pairs), _equal(pairs), mean, worst, where, problem)
