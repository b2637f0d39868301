"""The telemetry: what the host and its devices do while a trial runs."""
