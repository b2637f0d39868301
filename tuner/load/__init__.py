"""The load: workloads, the streaming client, and one record a request."""
