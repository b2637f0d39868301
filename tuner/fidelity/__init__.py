"""The fidelity: whether a cheap stand-in orders configurations as the real thing does."""
