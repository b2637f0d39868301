"""A shell script that starts the server of a trial: its process, or its container."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from tuner.export import dockerrun
from tuner.export.served import SERVED_ON, Served, by_flag
from tuner.launch.containerspec import PORT
from tuner.launch.ports import HOST

NAME = "serve.sh"

KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LD_LIBRARY_PATH", "XDG_CACHE_HOME")
"""What a process keeps of its caller's environment, as in the trial."""

_CLEAN = """\
# The server gets the variables below and those that it got in the trial, and no others of yours.
for name in $(env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p'); do
    case "$name" in
        {kept}) ;;
        *) if (unset "$name") 2>/dev/null; then unset "$name"; fi ;;
    esac
done
"""


def render(served: Served) -> str:
    """The script's text, for any POSIX shell."""
    head = (
        "#!/bin/sh\n"
        f"# {served.about}\n"
        f"#   sh {NAME}                        serves on http://{HOST}:{SERVED_ON}\n"
        f"#   HOST=0.0.0.0 PORT=9000 sh {NAME}   serves elsewhere; further words are flags of the server\n"
        "set -eu\n"
        f'host="${{HOST:-{HOST}}}" port="${{PORT:-{SERVED_ON}}}"\n'
    )
    secrets = enumerate(served.secrets)
    parts = [head, *(f'{_held(n)}="${{{source}:?}}"\n' for n, (_, source) in secrets)]
    if served.container is None:
        parts.append(_CLEAN.format(kept="|".join(KEPT)))
        parts += [f"export {name}={shlex.quote(value)}\n" for name, value in served.env]
        words = [*_quoted(by_flag(served.command)), '--host "$host" --port "$port"']
    else:
        words = _quoted(dockerrun.pieces(served, _PUBLISH, form="shell"))
        words[words.index(f"--publish {shlex.quote(_PUBLISH)}")] = f'--publish "$host:$port:{PORT}"'
    parts += [f'export {name}="${_held(n)}"\n' for n, (name, _) in enumerate(served.secrets)]
    lines = [*words, '"$@"']
    return "".join(parts) + "exec " + " \\\n    ".join(lines) + "\n"


_PUBLISH = "{host}:{port}"


def _held(number: int) -> str:
    """The shell's own variable that holds a secret while the environment is cleaned."""
    return f"secret_{number}"


def _quoted(pieces: Iterable[tuple[str, ...]]) -> list[str]:
    return [shlex.join(piece) for piece in pieces]
