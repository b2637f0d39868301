"""Which vLLM versions enginex was tested with."""

from __future__ import annotations

from enginex.errors import UntestedEngine

__all__ = ["STAND_IN", "TESTED", "check", "is_old"]

TESTED = ("0.32",)
"""Version prefixes, whole components: ``0.32`` covers 0.32.0 and 0.32.1 and not 0.320."""

STAND_IN = ("0.6.3",)
"""Versions whose path was tested on a stand-in of the engine's modules, for want of a machine that runs them."""


def is_old(version: str) -> bool:
    """Whether a version has its routed experts where vLLM 0.6.3 has them."""
    return _among(version, STAND_IN)


def _among(version: str, prefixes: tuple[str, ...]) -> bool:
    plain = version.split("+", 1)[0]
    return any(plain == t or plain.startswith(t + ".") for t in prefixes)


def check(version: str, *, allow_untested: bool) -> None:
    """Refuse a vLLM version that enginex was not tested with.

    Raises:
        UntestedEngine: The version is none of :data:`TESTED` and :data:`STAND_IN` and was not allowed.
    """
    if allow_untested or _among(version, TESTED + STAND_IN):
        return
    raise UntestedEngine(
        f"enginex was tested with vLLM {', '.join(t + '.x' for t in TESTED + STAND_IN)} and this is {version}; "
        "unset the ENGINEX_ variables, or set ENGINEX_ALLOW_UNTESTED=1 to run at your own risk"
    )
