"""What was asked, how it was answered, and on what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tuner.quantity import format_bytes
from tuner.report.blocks import Block, Code, Heading, code, paragraph, table, words
from tuner.report.material import Material
from tuner.report.text import clean, one_line, point


def question(material: Material) -> Iterator[Block]:
    """What was asked, and how it was answered."""
    study = material.study
    yield Heading("Question and method")
    yield paragraph(
        "Which point of the search space scores best on its workload and passes the gates? The "
        "search space is ",
        code(study.origin),
        ", fingerprint ",
        code(study.fingerprint[:12]),
        ".",
    )
    if material.base_params:
        yield paragraph("The baseline is ", code(point(material.base_params)), ".")
    yield paragraph(
        "Each trial starts an engine of its own, holds what it runs with against what was asked, "
        "asks it the probes, warms it up, sends it the whole workload, stops it, and proves that "
        "nothing is left before the next one starts. Gates come before the score: a trial that "
        "misses one cannot win. The best of the search were measured again in turns with the "
        "baseline, since the one that scored best of many was also lucky."
    )
    if material.space:
        yield Heading("The search space", 3)
        yield Code(clean("\n".join(material.space), longest=100_000))


def environment(material: Material) -> Iterator[Block]:
    """The machine, the engine, the model, and when."""
    study, facts = material.study, material.study.facts
    yield Heading("Machine and engine")
    rows: list[tuple[str, Any]] = [("begun", _when(study.created))]
    if study.ended is not None:
        rows.append(("ended", _when(study.ended)))
    if facts:
        rows += _machine(facts.get("hardware", {}))
        for name, engine in facts.get("engines", {}).items():
            rows += _engine(name, engine)
        rows += [
            (f"engine {name}, vllm imported from", code(str(path)))
            for name, path in facts.get("packages", {}).items()
        ]
        rows += [
            (f"model {name}", code(str(path))) for name, path in facts.get("models", {}).items()
        ]
        rows.append(("tuner", one_line(str(facts.get("tuner", "")))))
    rows.append(("search space", code(study.fingerprint)))
    yield table(("", ""), [(one_line(name), _cell(value)) for name, value in rows])


def _cell(value: Any) -> Any:
    return words(one_line(value)) if isinstance(value, str) else value


def _machine(hardware: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if not hardware:
        return
    cores = f"{hardware.get('cores')} cores"
    yield "processor", f"{hardware.get('processor')}, {cores}"
    yield "memory", format_bytes(hardware.get("memory_total") or 0)
    devices = [
        f"{d['name']}, {format_bytes(d['memory_total'])}" if d.get("memory_total") else d["name"]
        for d in hardware.get("devices", ())
    ]
    counts = {name: devices.count(name) for name in devices}
    said = ", ".join(f"{n} x {name}" if n > 1 else name for name, n in counts.items())
    yield "devices", said or "none"
    drivers = sorted({str(d["driver"]) for d in hardware.get("devices", ()) if d.get("driver")})
    if drivers:
        yield "driver", ", ".join(drivers)


def _engine(name: str, engine: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    found = engine.get("fingerprint", {})
    packages = found.get("packages", {})
    versions = [f"{k} {found[k]}" for k in ("vllm", "torch", "python") if found.get(k)]
    if packages.get("enginex"):
        versions.append(f"enginex {packages['enginex']}")
    yield f"engine {name}", ", ".join(versions)
    yield f"engine {name}, digest", code(str(engine.get("digest", "")))


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
