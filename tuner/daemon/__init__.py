"""The daemon: the queue, the recovery, the API and the page."""
