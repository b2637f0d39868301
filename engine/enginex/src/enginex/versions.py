"""Which vLLM versions enginex was tested with."""

from __future__ import annotations

from enginex.errors import UntestedEngine

__all__ = ["TESTED", "check"]

TESTED = ("0.32",)
"""Version prefixes, whole components: ``0.32`` covers 0.32.0 and 0.32.1 and not 0.320."""


def check(version: str, *, allow_untested: bool) -> None:
    """Refuse a vLLM version that enginex was not tested with.

    Raises:
        UntestedEngine: The version is none of :data:`TESTED` and was not allowed.
    """
    plain = version.split("+", 1)[0]
    if allow_untested or any(plain == t or plain.startswith(t + ".") for t in TESTED):
        return
    raise UntestedEngine(
        f"enginex was tested with vLLM {', '.join(t + '.x' for t in TESTED)} and this is {version}; "
        "unset the ENGINEX_ variables, or set ENGINEX_ALLOW_UNTESTED=1 to run at your own risk"
    )
