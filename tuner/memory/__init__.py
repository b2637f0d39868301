"""The memory: what a deployment needs, before it is started."""
