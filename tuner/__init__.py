"""Finds, safely and believably, the best way to deploy a large language model."""

from __future__ import annotations

__version__ = "0.1.0"
