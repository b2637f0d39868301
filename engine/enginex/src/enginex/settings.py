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
NUMERIC_WATCH = "ENGINEX_NUMERIC_WATCH"
NUMERIC_WATCH_EVERY = "ENGINEX_NUMERIC_WATCH_EVERY"
PROFILE_DECODE = "ENGINEX_PROFILE_DECODE"
PROFILE_EVERY = "ENGINEX_PROFILE_EVERY"
PROFILE_SYNC = "ENGINEX_PROFILE_SYNC"
STEP_RECORDS = "ENGINEX_STEP_RECORDS"
ALLOW_UNTESTED = "ENGINEX_ALLOW_UNTESTED"

_MOE = (MOE_TINY_IMPL, MOE_TINY_MAX, MOE_POLICY, MOE_HUGE_PAGES)
_NEEDS = {
    NUMERIC_WATCH_EVERY: NUMERIC_WATCH,
    PROFILE_EVERY: PROFILE_DECODE,
    PROFILE_SYNC: PROFILE_DECODE,
}
"""Variables that do nothing unless another is 1."""
_KNOWN = (*_MOE, NUMERIC_WATCH, PROFILE_DECODE, *_NEEDS, STEP_RECORDS, ALLOW_UNTESTED)
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for.

    Attributes:
        moe: Whether the routed experts are switched (or at least watched) at all.
        moe_impl: The variant for steps of few tokens.
        moe_max: The largest number of tokens that counts as few.
        moe_policy: The policy file that the variant ``auto`` reads.
        moe_huge_pages: Put the experts' weights on huge pages.
        watch: Look for layers whose output is NaN, infinite or zero.
        watch_every: One step of so many is looked at.
        profile: Time the stages of a step.
        profile_every: Print after so many steps.
        profile_sync: Wait for the device at each stage's begin and end.
        step_records: The file that steps are written to.
        allow_untested: Run with a vLLM version that enginex was not tested with.
    """

    moe: bool = False
    moe_impl: str = NATIVE
    moe_max: int = 4
    moe_policy: str | None = None
    moe_huge_pages: bool = False
    watch: bool = False
    watch_every: int = 64
    profile: bool = False
    profile_every: int = 200
    profile_sync: bool = False
    step_records: str | None = None
    allow_untested: bool = False

    @property
    def active(self) -> bool:
        """Whether anything at all was asked for."""
        return self.moe or self.observes

    @property
    def observes(self) -> bool:
        """Whether the engine's steps are looked at."""
        return self.watch or self.profile or self.step_records is not None


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
        moe_max=_whole(ours, MOE_TINY_MAX, 4, _LARGEST),
        moe_policy=ours.get(MOE_POLICY),
        moe_huge_pages=_switch(ours, MOE_HUGE_PAGES),
        watch=_switch(ours, NUMERIC_WATCH),
        watch_every=_whole(ours, NUMERIC_WATCH_EVERY, 64, _LARGEST, least=1),
        profile=_switch(ours, PROFILE_DECODE),
        profile_every=_whole(ours, PROFILE_EVERY, 200, _LARGEST, least=1),
        profile_sync=_switch(ours, PROFILE_SYNC),
        step_records=_path(ours, STEP_RECORDS),
        allow_untested=_switch(ours, ALLOW_UNTESTED),
    )
    if asked.moe_impl == AUTO and asked.moe_policy is None:
        raise SettingError(f"{MOE_TINY_IMPL}='auto' needs a policy file; name it in {MOE_POLICY}")
    if asked.moe_impl != AUTO and asked.moe_policy is not None:
        raise SettingError(f"{MOE_POLICY} does nothing unless {MOE_TINY_IMPL}='auto'")
    for name, other in _NEEDS.items():
        if name in ours and ours.get(other) != "1":
            raise SettingError(f"{name} does nothing unless {other}='1'")
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


def _whole(ours: Mapping[str, str], name: str, default: int, limit: int, *, least: int = 0) -> int:
    value = ours.get(name)
    if value is None:
        return default
    # isdecimal alone would accept digits of other scripts, and int() blanks and underscores.
    if not (value.isascii() and value.isdecimal()) or not least <= int(value) <= limit:
        raise SettingError(f"{name}={value!r} is not a whole number from {least} to {limit}")
    return int(value)


def _switch(ours: Mapping[str, str], name: str) -> bool:
    value = ours.get(name, "0")
    if value not in {"0", "1"}:
        raise SettingError(f"{name}={value!r} is not one of 0, 1")
    return value == "1"


def _path(ours: Mapping[str, str], name: str) -> str | None:
    value = ours.get(name)
    if value is not None and not value.strip():
        raise SettingError(f"{name} is empty; name a file, or unset it")
    return value
