"""Looking at an engine's steps: what each held, how long it took, where its time went, whether its numbers are sound.

Everything here is off unless a variable asks for it, and nothing here changes what the engine computes.
"""
