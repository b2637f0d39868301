"""The entry point that vLLM calls in each of its processes."""

from __future__ import annotations

import os
from pathlib import Path

from enginex import lines, settings, versions
from enginex.errors import EnginexError
from enginex.moe import policy
from enginex.observe import records

__all__ = ["register"]

_done = False


def register() -> None:
    """Read the environment and arrange what it asks for; do nothing when it asks for nothing.

    vLLM calls this while it parses the command line, so a mistake ends the engine within seconds.

    Raises:
        SystemExit: With status 2, after one clear line: a variable, a value or a vLLM version that
            enginex does not know. vLLM swallows exceptions while it loads a plugin and not while it
            calls one, and ``SystemExit`` gets through either.
    """
    global _done  # noqa: PLW0603 - vLLM may call this several times in a process
    if _done:
        return
    try:
        asked = settings.read(os.environ)
        if not asked.active:
            return
        old = _check_engine(asked)
        chosen = _policy(asked)
        if asked.step_records is not None:
            records.check_path(Path(asked.step_records))
    except EnginexError as error:
        lines.emit(f"{lines.PREFIX} error: {error}")
        raise SystemExit(2) from None
    _done = True
    _install(asked, chosen, old=old)


def _policy(asked: settings.Settings) -> policy.Policy | None:
    if asked.moe_policy is None:
        return None
    path = Path(asked.moe_policy)
    found = policy.read(path)
    policy.check_device(found, path)
    return found


def _install(asked: settings.Settings, chosen: policy.Policy | None, *, old: bool) -> None:
    if old:
        from enginex import vllm_063  # noqa: PLC0415 - nothing is loaded that was not asked for

        vllm_063.install(asked)
        return
    if asked.moe:
        from enginex import vllm_cpu  # noqa: PLC0415 - nothing is loaded that was not asked for

        vllm_cpu.install(asked, chosen)
    if asked.observes:
        from enginex import vllm_observe  # noqa: PLC0415 - nothing is loaded that was not asked for

        vllm_observe.install(asked)


def _check_engine(asked: settings.Settings) -> bool:
    """Refuse an engine that enginex does not know; say whether it is of the old kind."""
    import vllm  # noqa: PLC0415 - only where something was asked for; vLLM itself is what calls us

    versions.check(vllm.__version__, allow_untested=asked.allow_untested)
    return versions.is_old(vllm.__version__)
