"""The build: a recipe becomes an engine, once for each digest."""
