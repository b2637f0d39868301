"""The report: a study becomes a document that people read."""
