"""A profile: what a token is worth and what has to be reached, by name or from a search space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.score.figures import FIGURES
from tuner.score.gates import OFFICIAL as OFFICIAL_GATES
from tuner.score.gates import Gate
from tuner.score.official import PUBLISHED, Weights


@dataclass(frozen=True, slots=True)
class Profile:
    """How a load is scored.

    Attributes:
        name: What people call it.
        weights: What a token a second is worth.
        gates: What has to be reached.
    """

    name: str
    weights: Weights
    gates: tuple[Gate, ...]


OFFICIAL = Profile("official", PUBLISHED, OFFICIAL_GATES)
"""The official platform's weights and gates."""

UNGATED = Profile("none", PUBLISHED, ())
"""The official weights and no gate."""

PROFILES: Mapping[str, Profile] = {p.name: p for p in (OFFICIAL, UNGATED)}
"""The profiles that have a name."""


def profile(
    weights: Mapping[str, float], gates: Mapping[str, float | str], *, name: str = "own"
) -> Profile:
    """A profile as a search space writes it.

    Args:
        weights: ``output_tps``, ``uncached_input_tps`` and ``cached_tps``.
        gates: A limit for each figure that is gated, or ``off``. A figure that is better when
            higher must be at least its limit, another at most.
        name: What to call it.

    Raises:
        ValueError: When a figure is not known.
        TypeError: When a limit is neither a number nor ``off``.
        KeyError: When a weight is missing.
    """
    return Profile(
        name=name,
        weights=Weights(
            output=weights["output_tps"],
            uncached_input=weights["uncached_input_tps"],
            cached=weights["cached_tps"],
        ),
        gates=tuple(_gate(figure, limit) for figure, limit in gates.items() if limit != "off"),
    )


def _gate(figure: str, limit: float | str) -> Gate:
    if figure not in FIGURES:
        raise ValueError(f"there is no figure called {figure!r}")
    if not isinstance(limit, int | float):
        raise TypeError(f"the limit of {figure} must be a number or off, not {limit!r}")
    return Gate(figure, limit, at_least=FIGURES[figure].better == "higher")
