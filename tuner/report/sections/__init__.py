"""The sections of a report. Each is a pure function from the material to blocks."""
