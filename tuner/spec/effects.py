"""What fixed values, bundles, parameters and computed values do to a deployment, in turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.spec.flags import positive
from tuner.spec.parameter import Target
from tuner.spec.uses import UsedFile
from tuner.spec.values import (
    Choice,
    FileValue,
    Join,
    ListValue,
    SecretValue,
    flag_items,
    json_text,
    list_items,
    text_of,
)


@dataclass(slots=True)
class Effects:
    """A deployment in the making. What is set later wins; what is set first keeps its place.

    Attributes:
        files: The files of the search space, by their path as written.
        flags: For each flag, by its positive name, the arguments that set it.
        objects: For flags that take JSON, what they hold so far.
        env: Variables of the server.
        secrets: Variables of the server that are filled in at its start.
        settings: Parts of the engine that were chosen.
        used: Paths of the files that arguments and variables point to, with their digests.
    """

    files: Mapping[str, UsedFile]
    flags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)

    def fix_flag(self, flag: str, value: Any) -> None:
        """Set a flag as the engine or a bundle has it fixed.

        Args:
            flag: The flag's one spelling.
            value: True, text, a number, a list, a file, or a mapping that becomes JSON.
        """
        self.objects.pop(positive(flag), None)
        if isinstance(value, ListValue):
            items = tuple(text_of(item) for item in value.list if item is not None)
            self.flags[positive(flag)] = list_items(flag, items, value.join)
        elif isinstance(value, Mapping):
            self.flags[positive(flag)] = flag_items(flag, json_text(value))
        elif value is True:
            self.flags[positive(flag)] = (flag,)
        else:
            self.flags[positive(flag)] = flag_items(flag, self._text(value))

    def fix_env(self, name: str, value: Any) -> None:
        """Set a variable as the engine or a bundle has it fixed."""
        self.env.pop(name, None)
        self.secrets.pop(name, None)
        if isinstance(value, SecretValue):
            self.secrets[name] = value.from_env
        else:
            self.env[name] = self._text(value)

    def apply(self, target: Target, value: Choice, base: Mapping[str, Any] | None = None) -> None:
        """Set what a parameter or a computed value aims at.

        Args:
            target: Where the value goes.
            value: The value; null leaves the flag or the variable out.
            base: For a leaf, the JSON object that the flag has fixed.
        """
        if target.flag is not None and target.leaf is not None:
            self._set_leaf(target.flag, target.leaf, value, base or {})
        elif target.flag is not None:
            self._set_flag(target.flag, target, value)
        elif target.env is not None:
            self._set_env(target.env, value)
        elif target.setting is not None and isinstance(value, str):
            self.settings[target.setting] = value

    def _set_flag(self, flag: str, target: Target, value: Choice) -> None:
        key = positive(flag)
        self.objects.pop(key, None)
        if target.switch is not None:
            off = (f"--no-{flag[2:]}",) if target.switch == "pair" else ()
            self.flags[key] = (flag,) if value is True else off
        elif value is None:
            self.flags[key] = ()
        elif isinstance(value, tuple):
            self.flags[key] = list_items(flag, self._texts(value), _join(target))
        else:
            self.flags[key] = flag_items(flag, self._text(value))

    def _set_leaf(self, flag: str, leaf: str, value: Choice, base: Mapping[str, Any]) -> None:
        key = positive(flag)
        whole = self.objects.setdefault(key, _copy(base))
        *path, last = leaf.split(".")
        inner = whole
        for step in path:
            inner = inner.setdefault(step, {})
        if value is None:
            inner.pop(last, None)
        else:
            inner[last] = self._text(value) if isinstance(value, FileValue) else value
        held = _pruned(whole)
        self.flags[key] = flag_items(flag, json_text(held)) if held else ()

    def _set_env(self, name: str, value: Choice) -> None:
        self.env.pop(name, None)
        self.secrets.pop(name, None)
        if value is None:
            return
        texts = self._texts(value) if isinstance(value, tuple) else (self._text(value),)
        self.env[name] = ",".join(texts)

    def _texts(self, values: tuple[Any, ...]) -> tuple[str, ...]:
        return tuple(self._text(value) for value in values)

    def _text(self, value: Any) -> str:
        if isinstance(value, FileValue):
            file = self.files[value.file]
            self.used[str(file.path)] = file.digest
            return str(file.path)
        return text_of(value)


def _join(target: Target) -> Join:
    return target.join or "space"


def _copy(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copy(item) if isinstance(item, Mapping) else item for key, item in value.items()}


def _pruned(value: Mapping[str, Any]) -> dict[str, Any]:
    """The object without the empty objects that leaves which are absent left behind."""
    kept = {
        key: _pruned(item) if isinstance(item, Mapping) else item for key, item in value.items()
    }
    return {key: item for key, item in kept.items() if item != {}}
