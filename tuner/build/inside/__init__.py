"""What runs inside an engine, under its own interpreter: standard library only, Python 3.10 and newer.

The folder is copied beside the engine as the package ``tuner_inside`` and run with
``python -m tuner_inside``, so it imports nothing else of tuner.
"""
