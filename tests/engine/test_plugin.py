from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import pytest

from enginex import plugin
from enginex.moe.policy import Key, Policy, cpu_device, write


def child(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ENGINEX_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=clean | environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


FAKE_VLLM = """
import sys, types
vllm = types.ModuleType("vllm"); vllm.__version__ = {version!r}; sys.modules["vllm"] = vllm
from enginex.plugin import register
register()
print("torch" in sys.modules, any("enginex" in type(f).__module__ for f in sys.meta_path))
"""


def test_vllm_finds_the_entry_point() -> None:
    found = [e for e in entry_points(group="vllm.general_plugins") if e.name == "enginex"]
    assert [e.value for e in found] == ["enginex.plugin:register"]
    assert found[0].load() is plugin.register


def test_with_no_variable_set_nothing_is_imported_or_hooked() -> None:
    done = child(FAKE_VLLM.format(version="9.9"))
    assert done.returncode == 0
    assert done.stdout.split() == ["False", "False"]
    assert done.stderr == ""


@pytest.mark.parametrize(
    "name", ["ENGINEX_NUMERIC_WATCH", "ENGINEX_PROFILE_DECODE", "ENGINEX_STEP_RECORDS"]
)
def test_what_only_looks_waits_for_the_modules_too(name: str, tmp_path: Path) -> None:
    value = str(tmp_path / "steps.jsonl") if name == "ENGINEX_STEP_RECORDS" else "1"
    done = child(FAKE_VLLM.format(version="0.32.0"), **{name: value})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True"]


def test_a_variable_of_0_asks_for_nothing() -> None:
    done = child(FAKE_VLLM.format(version="9.9"), ENGINEX_NUMERIC_WATCH="0")
    assert done.stdout.split() == ["False", "False"]


def test_with_a_variable_set_it_waits_for_the_modules_it_patches() -> None:
    done = child(FAKE_VLLM.format(version="0.32.0"), ENGINEX_MOE_TINY_IMPL="loop")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"ENGINEX_MOE_TINY_IMPL": "lopp"}, "ENGINEX_MOE_TINY_IMPL='lopp' is not one of"),
        ({"ENGINEX_MOE_TINY_MAXX": "4"}, "ENGINEX_MOE_TINY_MAXX is not a variable of enginex"),
        ({"ENGINEX_MOE_TINY_IMPL": "auto"}, "needs a policy file"),
        (
            {"ENGINEX_MOE_TINY_IMPL": "auto", "ENGINEX_MOE_POLICY": "/no/such/file"},
            "/no/such/file cannot be read: No such file or directory",
        ),
        (
            {"ENGINEX_STEP_RECORDS": "/no/such/folder/steps.jsonl"},
            "/no/such/folder/steps.jsonl cannot be written: No such file or directory",
        ),
        ({"ENGINEX_PROFILE_SYNC": "1"}, "does nothing unless ENGINEX_PROFILE_DECODE='1'"),
    ],
)
def test_a_mistake_ends_the_process_with_one_line(environ: dict[str, str], message: str) -> None:
    done = child(FAKE_VLLM.format(version="0.32.0"), **environ)
    assert done.returncode == 2
    assert done.stderr.startswith("[enginex] error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_policy_of_another_device_ends_the_process_with_one_line(tmp_path: Path) -> None:
    other = Key("cpu:other", 2, "bf16", 64, 256, 64, 8)
    mine = replace(other, device=cpu_device())
    path = tmp_path / "policy.json"
    asked = {"ENGINEX_MOE_TINY_IMPL": "auto", "ENGINEX_MOE_POLICY": str(path)}
    write(path, Policy({other: {1: "loop"}}))
    done = child(FAKE_VLLM.format(version="0.32.0"), **asked)
    assert done.returncode == 2
    assert done.stderr.startswith(f"[enginex] error: {path} was measured on cpu:other and this is ")
    assert done.stderr.count("\n") == 1
    write(path, Policy({other: {1: "loop"}, mine: {1: "loop"}}))
    assert child(FAKE_VLLM.format(version="0.32.0"), **asked).returncode == 0


def test_an_untested_version_is_refused_only_where_something_was_asked_for() -> None:
    refused = child(FAKE_VLLM.format(version="0.33.0"), ENGINEX_MOE_TINY_IMPL="loop")
    assert refused.returncode == 2
    assert "enginex was tested with vLLM 0.32.x, 0.6.3.x and this is 0.33.0" in refused.stderr
    allowed = child(
        FAKE_VLLM.format(version="0.33.0"), ENGINEX_MOE_TINY_IMPL="loop", ENGINEX_ALLOW_UNTESTED="1"
    )
    assert allowed.returncode == 0
    assert child(FAKE_VLLM.format(version="0.33.0")).returncode == 0


def test_registering_twice_is_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[object] = []
    fake = ModuleType("vllm")
    fake.__version__ = "0.32.0"  # type: ignore[attr-defined] - what the plugin reads
    monkeypatch.setitem(sys.modules, "vllm", fake)
    monkeypatch.setenv("ENGINEX_MOE_TINY_IMPL", "loop")
    monkeypatch.setattr(plugin, "_done", False)
    monkeypatch.setattr("enginex.vllm_cpu.install", lambda *args: seen.append(args))
    plugin.register()
    plugin.register()
    assert len(seen) == 1
