"""The search: which point is tried next, and when to stop."""
