"""The policy file: which variant is fastest, by device, shape, dtype, threads and number of tokens.

``python -m enginex.bench`` measures and writes it; the variant ``auto`` reads it. A policy is only good for the very
device and shape that were measured, so a lookup that finds nothing says so instead of guessing::

    {"format": "enginex-policy/1",
     "entries": [{"device": "cpu:…", "threads": 2, "dtype": "bf16",
                  "experts": 256, "hidden": 2048, "inter": 512, "topk": 8,
                  "by_tokens": {"1": "compiled", "2": "compiled", "64": "native"}}]}

A number of tokens that was not measured takes the choice of the next larger one that was; above the largest, native.
A file without an entry for this device is refused before a model is loaded; whether it has the layer's shape, its
dtype and the threads is known once the model is there.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enginex.errors import SettingError
from enginex.moe.names import AUTO, NATIVE, VARIANTS

__all__ = ["FORMAT", "Key", "Policy", "check_device", "cpu_device", "read", "write"]

FORMAT = "enginex-policy/1"
_LARGEST_FILE = 4 << 20


@dataclass(frozen=True, slots=True)
class Key:
    """What a measurement is good for.

    Attributes:
        device: See :func:`cpu_device`.
        threads: How many threads computed.
        dtype: ``bf16``, ``fp16`` or ``fp32``.
        experts: E on this rank.
        hidden: H.
        inter: I on this rank.
        topk: k.
    """

    device: str
    threads: int
    dtype: str
    experts: int
    hidden: int
    inter: int
    topk: int


@dataclass(frozen=True, slots=True)
class Policy:
    """The content of a policy file."""

    entries: Mapping[Key, Mapping[int, str]]

    def table(self, key: Key, most: int) -> dict[int, str] | None:
        """Say for each number of tokens from 1 to ``most`` what to run, or None when nothing was measured."""
        measured = self.entries.get(key)
        if measured is None:
            return None
        points = sorted(measured)
        table: dict[int, str] = {}
        for tokens in range(1, most + 1):
            above = [p for p in points if p >= tokens]
            table[tokens] = measured[above[0]] if above else NATIVE
        return table

    def lacks(self, key: Key) -> tuple[str, str, str] | None:
        """Say what of a key was not measured, or None when all of it was.

        Returns:
            The part in one word (``device``, ``shape``, ``dtype`` or ``threads``), what it is here, and
            what was measured, in the order in which they narrow down: a shape is looked for among the
            entries of the device, a dtype among those of the shape.
        """
        left = list(self.entries)
        for part, of in _PARTS.items():
            here, measured = of(key), sorted({of(entry) for entry in left})
            left = [entry for entry in left if of(entry) == here]
            if not left:
                return part, here, ",".join(measured) or "nothing"
        return None


def _shape(key: Key) -> str:
    return f"{key.experts}x{key.hidden}x{key.inter}x{key.topk}"


_PARTS: Mapping[str, Callable[[Key], str]] = {
    "device": lambda key: key.device,
    "shape": _shape,
    "dtype": lambda key: key.dtype,
    "threads": lambda key: str(key.threads),
}


def check_device(policy: Policy, path: Path) -> None:
    """Refuse a policy that was measured on other devices only.

    Raises:
        SettingError: With what this device is and what was measured; the message is one line.
    """
    here, measured = cpu_device(), sorted({key.device for key in policy.entries})
    if here not in measured:
        raise SettingError(
            f"{path} was measured on {', '.join(measured) or 'nothing'} and this is {here}; "
            "measure this device with `tuner kernels MODEL` or `python -m enginex.bench --policy FILE`"
        )


def cpu_device() -> str:
    """Name this CPU in one word, such as ``cpu:Intel(R)_Xeon(R)_Processor``."""
    name = platform.processor() or platform.machine()
    try:
        match = re.search(
            r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE
        )
    except OSError:
        match = None
    return "cpu:" + "_".join((match.group(1) if match else name).split())


def read(path: Path) -> Policy:
    """Read a policy file.

    Raises:
        SettingError: It cannot be read or is not a policy; the message is one line.
    """
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise SettingError(f"{path} is larger than a policy can be")
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise SettingError(f"{path} is not JSON: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise SettingError(f"{path} is not a policy: its format is not {FORMAT!r}")
    try:
        return Policy(dict(_entry(entry) for entry in content["entries"]))
    except (KeyError, TypeError, ValueError) as error:
        raise SettingError(f"{path} is not a policy: {type(error).__name__}: {error}") from error


def _entry(entry: Mapping[str, Any]) -> tuple[Key, dict[int, str]]:
    key = Key(
        device=str(entry["device"]),
        threads=int(entry["threads"]),
        dtype=str(entry["dtype"]),
        experts=int(entry["experts"]),
        hidden=int(entry["hidden"]),
        inter=int(entry["inter"]),
        topk=int(entry["topk"]),
    )
    choices = {int(tokens): str(name) for tokens, name in entry["by_tokens"].items()}
    for tokens, name in choices.items():
        if name not in VARIANTS or name == AUTO or tokens < 1:
            raise ValueError(f"{tokens} tokens: {name!r} is no variant that can be chosen")
    return key, choices


def write(path: Path, policy: Policy) -> None:
    """Write a policy file, replacing what is there in one move; the same policy gives the same bytes."""
    entries = [
        {
            **{name: getattr(key, name) for name in Key.__dataclass_fields__},
            "by_tokens": {str(tokens): choices[tokens] for tokens in sorted(choices)},
        }
        for key, choices in sorted(policy.entries.items(), key=lambda item: repr(item[0]))
    ]
    text = json.dumps({"format": FORMAT, "entries": entries}, indent=2) + "\n"
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)
