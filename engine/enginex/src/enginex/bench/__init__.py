"""Measure the variants of the routed experts at real shapes: ``python -m enginex.bench``."""
