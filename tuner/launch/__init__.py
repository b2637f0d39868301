"""The launch: a deployment becomes a live engine, and a live engine is proven gone."""
