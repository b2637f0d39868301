"""The quality: whether an engine still gives the right kind of answers."""
