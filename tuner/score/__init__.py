"""The score: records become metrics, gates and the official score. Pure functions."""
