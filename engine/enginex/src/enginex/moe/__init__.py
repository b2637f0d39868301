"""Routed experts of a mixture-of-experts layer, in several variants with one contract."""
