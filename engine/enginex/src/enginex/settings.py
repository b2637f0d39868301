"""Environment variables → settings, with every mistake refused.

An unknown ``ENGINEX_`` variable is refused as well: a misspelt one would do nothing, and whoever
measured it would believe that it had been measured.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from enginex.errors import SettingError
from enginex.moe.names import AUTO, NATIVE, VARIANTS

__all__ = ["Settings", "read"]

MOE_TINY_IMPL = "ENGINEX_MOE_TINY_IMPL"
MOE_TINY_MAX = "ENGINEX_MOE_TINY_MAX"
MOE_POLICY = "ENGINEX_MOE_POLICY"
MOE_HUGE_PAGES = "ENGINEX_MOE_HUGE_PAGES"
ALLOW_UNTESTED = "ENGINEX_ALLOW_UNTESTED"

_MOE = (MOE_TINY_IMPL, MOE_TINY_MAX, MOE_POLICY, MOE_HUGE_PAGES)
_KNOWN = (*_MOE, ALLOW_UNTESTED)
_TINY_MAX_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for.

    Attributes:
        moe: Whether the routed experts are switched (or at least watched) at all.
        moe_impl: The variant for steps of few tokens.
        moe_max: The largest number of tokens that counts as few.
        moe_policy: The policy file that the variant ``auto`` reads.
        moe_huge_pages: Put the experts' weights on huge pages.
        allow_untested: Run with a vLLM version that enginex was not tested with.
    """

    moe: bool = False
    moe_impl: str = NATIVE
    moe_max: int = 4
    moe_policy: str | None = None
    moe_huge_pages: bool = False
    allow_untested: bool = False

    @property
    def active(self) -> bool:
        """Whether anything at all was asked for."""
        return self.moe


def read(environ: Mapping[str, str]) -> Settings:
    """Read the settings from an environment.

    Raises:
        SettingError: A variable or a value that enginex does not know; the message names the mend.
    """
    ours = {name: value for name, value in environ.items() if name.startswith("ENGINEX_")}
    for name in sorted(ours):
        if name not in _KNOWN:
            raise SettingError(f"{name} is not a variable of enginex{_hint(name, _KNOWN)}")
    asked = Settings(
        moe=any(name in ours for name in _MOE),
        moe_impl=_choice(ours, MOE_TINY_IMPL, VARIANTS, NATIVE),
        moe_max=_whole(ours, MOE_TINY_MAX, 4, _TINY_MAX_LIMIT),
        moe_policy=ours.get(MOE_POLICY),
        moe_huge_pages=_switch(ours, MOE_HUGE_PAGES),
        allow_untested=_switch(ours, ALLOW_UNTESTED),
    )
    if asked.moe_impl == AUTO and asked.moe_policy is None:
        raise SettingError(f"{MOE_TINY_IMPL}='auto' needs a policy file; name it in {MOE_POLICY}")
    if asked.moe_impl != AUTO and asked.moe_policy is not None:
        raise SettingError(f"{MOE_POLICY} does nothing unless {MOE_TINY_IMPL}='auto'")
    return asked


def _hint(given: str, known: Sequence[str]) -> str:
    """Say which known word was probably meant, or list them all."""
    close = difflib.get_close_matches(given, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else f"; it knows {', '.join(known)}"


def _choice(ours: Mapping[str, str], name: str, choices: Sequence[str], default: str) -> str:
    value = ours.get(name)
    if value is None:
        return default
    if value not in choices:
        close = difflib.get_close_matches(value.lower(), choices, n=1, cutoff=0.5)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise SettingError(f"{name}={value!r} is not one of {', '.join(choices)}{meant}")
    return value


def _whole(ours: Mapping[str, str], name: str, default: int, limit: int) -> int:
    value = ours.get(name)
    if value is None:
        return default
    # isdecimal alone would accept digits of other scripts, and int() blanks and underscores.
    if not (value.isascii() and value.isdecimal()) or int(value) > limit:
        raise SettingError(f"{name}={value!r} is not a whole number from 0 to {limit}")
    return int(value)


def _switch(ours: Mapping[str, str], name: str) -> bool:
    value = ours.get(name, "0")
    if value not in {"0", "1"}:
        raise SettingError(f"{name}={value!r} is not one of 0, 1")
    return value == "1"
