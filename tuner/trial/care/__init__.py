"""Looking after a machine that tunes: what is wrong with it, and what earlier engines have left."""
