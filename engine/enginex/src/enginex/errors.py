"""The errors that stop an engine on purpose, each with one clear line."""

from __future__ import annotations

__all__ = ["EnginexError", "SettingError", "UntestedEngine"]


class EnginexError(Exception):
    """The base of what enginex raises on purpose."""


class SettingError(EnginexError):
    """An ``ENGINEX_`` variable that cannot be accepted."""


class UntestedEngine(EnginexError):
    """A vLLM version that enginex was not tested with."""
