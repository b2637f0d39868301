"""The lines that enginex prints into an engine's log, for people and for programs.

Each is one line ``[enginex] <topic> key=value key=value …``. Keys are never renamed and values hold no
blanks, so that a reader may split at blanks and at the first ``=``. vLLM may put the process's name in
front of the line.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

__all__ = ["PREFIX", "emit", "render", "short_dtype"]

PREFIX = "[enginex]"

_SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


def render(topic: str, fields: Mapping[str, object]) -> str:
    """Make one log line.

    Args:
        topic: One or two words, such as ``moe`` or ``moe steps``.
        fields: What to say; a value of None leaves its key out.

    Raises:
        ValueError: A value holds a blank, which a reader could not tell from the next key.
    """
    parts = [PREFIX, topic]
    for key, value in fields.items():
        if value is None:
            continue
        text = str(value)
        if not text or any(c.isspace() for c in text):
            raise ValueError(f"the value of {key} must be one word: {text!r}")
        parts.append(f"{key}={text}")
    return " ".join(parts)


def emit(line: str) -> None:
    """Write one line to standard error in a single call, so that lines of two processes do not mix."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):  # the log is closed, as it may be while a process ends
        return


def short_dtype(dtype: object) -> str:
    """Name a torch dtype as the log lines do: ``bf16`` for ``torch.bfloat16``."""
    name = str(dtype).removeprefix("torch.")
    return _SHORT.get(name, name)
