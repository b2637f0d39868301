"""Engines and what starts them: what is built, whether Docker answers, which ports are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tuner.build import CachedEngine, list_engines
from tuner.errors import DockerLost, LaunchFailed, TunerError, UserError
from tuner.launch import ports
from tuner.launch.dockerapi import Docker
from tuner.spec.document import Engine as EngineChoice
from tuner.store.ledger import Ledger
from tuner.store.rows import OPEN
from tuner.trial.care.cleaning import worker_of
from tuner.trial.care.finding import Finding, bad, note, ok
from tuner.trial.entry import stored_space

_DOCKER_S = 5.0


def look_at_engines(cache: Path) -> list[Finding]:
    """What is built, and whether it is whole."""
    check = "engines"
    entries = list_engines(cache)
    built = [entry for entry in entries if entry.engine is not None]
    found = [_look(check, entry) for entry in built]
    found += [note(check, f"{e.name} is being built") for e in entries if e.building]
    if not built:
        found.append(
            note(
                check,
                f"no engine is built in {cache}",
                "tuner run builds what a search space needs; to do it now: tuner engine build cpu",
            )
        )
    return found


def _look(check: str, entry: CachedEngine) -> Finding:
    engine = entry.engine
    if engine is None or engine.image is not None or engine.python.exists():
        return ok(check, f"{entry.name} is built")
    return bad(
        check,
        f"{entry.name}: its interpreter {engine.python} is gone",
        f"rm -r {entry.path} and build it again: tuner engine build {engine.recipe}",
    )


def look_at_docker(ledger: Ledger | None) -> list[Finding]:
    """Whether Docker's daemon answers, and whether anything needs it."""
    check = "docker"
    try:
        with Docker(timeout=_DOCKER_S) as docker:
            docker.find("tuner.marker", "-")
    except (DockerLost, LaunchFailed, UserError) as error:
        mend = "install and start Docker; where it runs already, see DOCKER_HOST and the rights of its socket"
        if users := _docker_users(ledger):
            return [bad(check, f"{error}; needed by {', '.join(users)}", mend)]
        return [note(check, f"{error}; only `launch: docker` needs it", mend)]
    return [ok(check, "its daemon answers")]


def _docker_users(ledger: Ledger | None) -> list[str]:
    if ledger is None:
        return []
    names = {row.id: row.name for row in ledger.studies()}
    users = [
        f"an engine of study {names[r.study]}" for r in ledger.open_launches() if r.kind == "docker"
    ]
    users += [f"study {name}" for name, engine in _waiting(ledger) if engine.launch == "docker"]
    return list(dict.fromkeys(users))


def look_at_ports(ledger: Ledger | None) -> list[Finding]:
    """Whether engines can have ports: any, and those that studies ask for by number."""
    check = "ports"
    try:
        ports.free_port()
    except (TunerError, OSError) as error:
        said = f"no port can be had on {ports.HOST}: {error}"
        return [bad(check, said, "close some programs; or bring the loopback interface up")]
    found = [ok(check, f"ports can be had on {ports.HOST}")]
    for name, engine in _waiting(ledger) if ledger is not None else ():
        if engine.port is not None and not ports.is_free(engine.port):
            who = "; ".join(ports.strangers(engine.port, ())) or "somebody"
            said = f"study {name} asks for port {engine.port}, which {who} holds"
            found.append(bad(check, said, _OTHER_PORT))
    return found


_OTHER_PORT = (
    "end that program, or leave the port out of the search space: a free one is chosen then"
)


def _waiting(ledger: Ledger) -> Iterator[tuple[str, EngineChoice]]:
    """What studies ask of their engines that are not over and that nobody works on now."""
    for row in ledger.studies():
        if row.status not in OPEN or worker_of(ledger, row.name) is not None:
            continue
        try:
            yield row.name, stored_space(ledger, row).engine
        except (TunerError, OSError):
            continue  # its space cannot be read (any more): `tuner resume` says why
