"""A systemd unit that keeps the server of a trial running: its process, or its container.

Quoting is systemd's own (systemd.syntax, systemd.service): words in double quotes with backslash
escapes, ``%%`` for a percent sign everywhere, ``$$`` for a dollar sign in commands.
"""

from __future__ import annotations

import math

from tuner.export import dockerrun
from tuner.export.served import SERVED_ON, Served, by_flag
from tuner.launch.containerspec import PORT
from tuner.launch.ports import HOST

DOCKER = "/usr/bin/docker"


def file_name(served: Served) -> str:
    """The unit's name, which is also the service's."""
    return f"{served.name}.service"


def render(served: Served) -> str:
    """The unit's text."""
    name = served.name
    secrets = f"%h/.config/{name}/secrets"
    lines = [
        f"# {served.about}",
        f"#   mkdir -p ~/.config/systemd/user && cp {name}.service ~/.config/systemd/user/",
        f"#   systemctl --user daemon-reload && systemctl --user enable --now {name}",
        "#   loginctl enable-linger        # so that it outlives your session, and starts with the machine",
        *_secret_remarks(served),
        "[Unit]",
        f"Description=Model server of study {_percent(served.study)}",
        "StartLimitIntervalSec=3600",
        "StartLimitBurst=5",
        "",
        "[Service]",
        "Type=exec",
        *([f"EnvironmentFile={secrets}"] if served.secrets else []),
        *_body(served),
        "Restart=on-failure",
        "RestartSec=10",
        "KillMode=mixed",
        f"TimeoutStopSec={math.ceil(served.stop_s)}",
        "NoNewPrivileges=yes",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def _secret_remarks(served: Served) -> list[str]:
    if not served.secrets:
        return []
    names = ", ".join(name for name, _ in served.secrets)
    where = f"~/.config/{served.name}/secrets"
    return [f"# Put {names} into {where} (chmod 600), one NAME=value a line."]


def _body(served: Served) -> list[str]:
    if served.container is None:
        words = [*by_flag(served.command), ("--host", HOST, "--port", str(SERVED_ON))]
        limit = [] if served.memory is None else [f"MemoryMax={served.memory}", "MemorySwapMax=0"]
        env = [f"Environment={_word(f'{name}={value}')}" for name, value in served.env]
        return [*env, *limit, _command(words)]
    publish = f"{HOST}:{SERVED_ON}:{PORT}"
    (_, *others), *rest = dockerrun.pieces(served, publish, form="systemd")
    return [
        f"ExecStartPre=-{DOCKER} rm --force {served.name}",  # what a crash of the machine left
        _command([(DOCKER, *others), *rest]),
    ]


def _command(pieces: list[tuple[str, ...]]) -> str:
    text = [" ".join(_word(word, dollar=True) for word in piece) for piece in pieces]
    return "ExecStart=" + " \\\n    ".join(text)


def _word(text: str, *, dollar: bool = False) -> str:
    escaped = _percent(text.replace("\\", "\\\\").replace('"', '\\"'))
    if dollar:
        escaped = escaped.replace("$", "$$")
    bare = text and all(c.isascii() and (c.isalnum() or c in "_-./:=,@+") for c in text)
    return escaped if bare else f'"{escaped}"'


def _percent(text: str) -> str:
    return text.replace("%", "%%")
