from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.spec import Context, Hardware, SearchSpace

Build = Callable[..., SearchSpace]


@dataclass
class Card:
    memory_total: int | None


@dataclass
class Found:
    devices: list[Card]
    cores: int
    memory_total: int


def test_names_of_the_machine_and_of_one_workload(build: Build) -> None:
    context = Context.of(build(""), Hardware(4, 16, 64 << 30, 32 << 30))
    assert context.facts["hardware.devices"] == 4
    assert context.facts["hardware.cores"] == 16
    assert context.facts["hardware.memory_gib"] == 64.0
    assert context.facts["hardware.device_memory_gib"] == 32.0
    assert context.facts["workload.concurrency"] == 3
    assert context.facts["workloads.main.concurrency"] == 3


def test_several_workloads_have_names_only(build: Build) -> None:
    one = "kind: conversations, conversations: 4, turns: 2, turn_tokens: 9, output_tokens: 8"
    space = build(f"workloads:\n  a: {{{one}, concurrency: 1}}\n  b: {{{one}, concurrency: 2}}\n")
    facts = Context.of(space, Hardware(0, 1, 1)).facts
    assert facts["workloads.b.concurrency"] == 2
    assert not any(name.startswith("workload.") for name in facts)


def test_what_was_found_is_taken_and_overridden(build: Build) -> None:
    machine = Found([Card(32 << 30), Card(16 << 30), Card(None)], 8, 1 << 36)
    assert Hardware.of(machine) == Hardware(3, 8, 1 << 36, 0)
    assert Hardware.of(Found([], 2, 5)) == Hardware(0, 2, 5, 0)
    asks = "rules: [{forbid: seqs > hardware.devices * hardware.device_memory_gib, reason: why}]"
    space = build(f"hardware: {{devices: 8, device_memory: 1GiB}}\n{asks}")
    assert Context.of(space, machine).hardware == Hardware(8, 8, 1 << 36, 1 << 30)
