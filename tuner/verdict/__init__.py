"""The verdict: why an engine ended as it did, and the lines that prove it."""
