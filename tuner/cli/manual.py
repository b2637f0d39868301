"""The page of all commands, written from the commands themselves: ``python -m tuner.cli.manual``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import typer
from typer.core import TyperArgument, TyperOption
from typer.main import get_command

PAGE = Path("docs/reference/commands.md")

_HEAD = """# Commands

Written from the commands' own help by `python -m tuner.cli.manual`; a test keeps it current.

Every command exits 0 on success, 2 on a mistake of yours (one line with file, line and the mend), 3 when a study ended
with nothing feasible, 1 otherwise. `--state DIR` before the command, or `TUNER_STATE`, chooses the state folder.
`tuner --install-completion` teaches your shell to complete them.
"""


def manual() -> str:
    """The page as Markdown."""
    from tuner.cli import main, register

    app = typer.Typer(name="tuner", rich_markup_mode=None)
    app.callback()(main.common)
    register.commands(app)
    return "\n".join([_HEAD, *_commands(get_command(app), "tuner")])


def _commands(command: object, path: str) -> Iterator[str]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield from _command(command, path)
        return
    for name, one in inner.items():
        if not one.hidden:
            yield from _commands(one, f"{path} {name}")


def _command(command: object, path: str) -> Iterator[str]:
    parameters = getattr(command, "params", [])
    arguments = [p for p in parameters if isinstance(p, TyperArgument)]
    options = [p for p in parameters if isinstance(p, TyperOption) and not p.hidden]
    words = [path, *(_shown(argument) for argument in arguments)]
    text = inspect.cleandoc(getattr(command, "help", None) or "")
    about, _, example = text.partition("Example: ")
    yield f"## `{' '.join(words)}`\n\n{about.strip()}\n"
    if example:
        yield f"```sh\n{example.strip()}\n```\n"
    rows = [(f"`{_shown(a)}`", a.help) for a in arguments if a.help]
    rows += [(f"`{_spelt(option)}`", option.help or "") for option in options]
    if rows:
        yield "| | |\n|---|---|"
        yield "\n".join(f"| {left} | {right} |" for left, right in rows) + "\n"


def _shown(argument: TyperArgument) -> str:
    name = (argument.metavar or argument.name or "").strip("[]").upper()
    name += "..." if argument.nargs == -1 else ""
    return name if argument.required else f"[{name}]"


def _spelt(option: TyperOption) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    if option.is_flag:
        return names
    choices = "\\|".join(str(c) for c in option.type_descriptor.choices or ())
    return f"{names} {option.metavar or choices or option.bare_type().upper()}"


if __name__ == "__main__":
    PAGE.write_text(manual(), encoding="utf-8")
