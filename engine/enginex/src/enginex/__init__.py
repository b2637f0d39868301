"""Kernels for vLLM that are switched by the environment.

Importing this package imports neither torch nor vLLM: vLLM loads the plugin in every process,
and a process that asked for nothing must not pay for it.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
