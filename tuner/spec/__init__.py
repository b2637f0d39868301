"""The search space: what may be varied, what is fixed, what is asked, and how a point becomes a deployment."""

from __future__ import annotations

from tuner.spec.axes import Assignment, Axis, axes
from tuner.spec.context import Context, Hardware
from tuner.spec.deployment import Deployment
from tuner.spec.describe import describe
from tuner.spec.load import load_space, parse_space
from tuner.spec.notes import notes
from tuner.spec.parameter import Rule
from tuner.spec.points import (
    Point,
    assignment,
    baseline,
    enumerate_points,
    first_points,
    grid_size,
    point,
)
from tuner.spec.resolve import resolve, violations
from tuner.spec.soundness import check
from tuner.spec.space import Load, SearchSpace, difference

__all__ = [
    "Assignment",
    "Axis",
    "Context",
    "Deployment",
    "Hardware",
    "Load",
    "Point",
    "Rule",
    "SearchSpace",
    "assignment",
    "axes",
    "baseline",
    "check",
    "describe",
    "difference",
    "enumerate_points",
    "first_points",
    "grid_size",
    "load_space",
    "notes",
    "parse_space",
    "point",
    "resolve",
    "violations",
]
