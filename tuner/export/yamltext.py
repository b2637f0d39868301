"""YAML that every reader takes for the same thing.

YAML's versions disagree on which bare words are numbers or truth values: ``1e3``, ``0o17``, ``1:30``,
``y`` are text to one and none to another. A text that any of them might take for something else is quoted.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_PLAIN = re.compile(r"(?:/|-{1,2}[A-Za-z]|[A-Za-z_])[\w./@=+-]*", re.ASCII)
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is the library's
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    style = None if plain else "|" if "\n" in value else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump(*documents: Any) -> str:
    """The documents as YAML with LF line ends, keys in the order in which they are given."""
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=10**9,
        default_flow_style=False,
        explicit_start=len(documents) > 1,
    )
