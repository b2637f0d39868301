"""The export: a winner becomes files that people deploy."""
