"""Names for points. Apart from the sampler, because who only compares points need not load Optuna."""

from __future__ import annotations

from tuner.spec.axes import Assignment


def key(assignment: Assignment) -> str:
    """A name for a point: the same for equal points, whatever the order of their axes."""
    return repr(sorted(assignment.items()))
