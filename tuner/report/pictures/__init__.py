"""The report's pictures, one kind a module."""
