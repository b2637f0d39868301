"""The fixtures of the rules: lines that each rule must match, and near misses that it must not."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tuner.verdict import Asked, Evidence, read_log

DATA = Path(__file__).parent.parent / "data" / "verdict"


@dataclass(frozen=True, slots=True)
class Case:
    """One fixture."""

    rule: str
    log: str
    name: str
    hit: bool
    verdict: str | None = None
    stage: str | None = None
    violation: float | None = None
    note: bool = False
    repeat: int = 1
    asked: str | None = None

    @property
    def lines(self) -> list[str]:
        return self.log.strip("\n").split("\n") * self.repeat

    @property
    def evidence(self) -> Evidence:
        asked = None if self.asked is None else Asked(self.asked)
        return Evidence(log=read_log(self.lines), asked=asked)


def load_cases() -> list[Case]:
    found: list[Case] = []
    for path in sorted((DATA / "rules").glob("*.toml")):
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        for kind in ("hit", "near"):
            for number, entry in enumerate(document[kind]):
                given = {key: value for key, value in entry.items() if key != "why"}
                name = f"{entry['rule']}-{kind}-{number}"
                found.append(Case(**given, name=name, hit=kind == "hit"))
    return found


@dataclass(frozen=True, slots=True)
class Wording:
    """Lines of a known kind in other words."""

    name: str
    verdicts: tuple[str, ...]
    log: str
    repeat: int = 1

    @property
    def lines(self) -> list[str]:
        return self.log.strip("\n").split("\n") * self.repeat


def load_wordings() -> list[Wording]:
    found: list[Wording] = []
    for path in sorted((DATA / "kinds").glob("*.toml")):
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["case"]
        found += [Wording(**{**entry, "verdicts": tuple(entry["verdicts"])}) for entry in entries]
    return found
