from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tuner.build import Engine, Fingerprint, measure_kernels, policy_file
from tuner.errors import TunerError, UserError

BENCH = """
import json, os, sys
args = dict(zip(sys.argv[1::2], sys.argv[2::2]))
print("enginex.bench: T=1 took 0.1 s", file=sys.stderr)
status = int(os.environ.get("FAKE_STATUS", "0"))
if status:
    print("enginex.bench: " + os.environ["FAKE_SAYS"], file=sys.stderr)
    sys.exit(status)
variants = {"loop": {"median_ms": 2.0}, "compiled": {"median_ms": 1.0}, "bmm": {"median_ms": 9.0}}
points = [
    {"tokens": 1, "fastest": "compiled", "variants": variants},
    {"tokens": 64, "fastest": "loop", "variants": variants},
]
open(args["--json"], "w").write(json.dumps({"results": [{"tokens": points}], "asked": args}))
open(args["--policy"], "w").write("{}")
print("the table")
"""


def engine(tmp_path: Path, *, image: str | None = None, **env: str) -> Engine:
    package = tmp_path / "site" / "enginex"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "bench.py").write_text(BENCH)
    return Engine(
        recipe="fake",
        digest="0" * 64,
        kind="venv",
        root=tmp_path,
        python=Path(sys.executable),
        server=(),
        env=tuple(sorted({"PYTHONPATH": str(package.parent), **env}.items())),
        fingerprint=Fingerprint("3.11", None, None, (), "cpu", ()),
        image=image,
    )


def test_table_figures_and_policy(tmp_path: Path) -> None:
    heard: list[str] = []
    policy = policy_file(tmp_path / "cache")
    found = measure_kernels(
        engine(tmp_path),
        tmp_path / "model",
        policy=policy,
        options=["--tp", "2"],
        report=heard.append,
    )
    assert found.table == "the table\n"
    assert heard == ["enginex.bench: T=1 took 0.1 s"]
    assert policy.read_text() == "{}"
    asked: dict[str, Any] = found.figures["asked"]
    assert asked["--model"] == str(tmp_path / "model")
    assert asked["--tp"] == "2"
    assert found.never_fastest() == ["bmm"]
    assert json.loads(json.dumps(found.figures)) == found.figures


def test_what_the_user_can_mend_is_one_line(tmp_path: Path) -> None:
    wrong = engine(tmp_path, FAKE_STATUS="2", FAKE_SAYS="/m/config.json cannot be read")
    with pytest.raises(UserError, match=r"^/m/config\.json cannot be read"):
        measure_kernels(wrong, tmp_path, policy=tmp_path / "p.json")


def test_a_crash_is_not_the_users_mistake(tmp_path: Path) -> None:
    crashed = engine(tmp_path, FAKE_STATUS="139", FAKE_SAYS="boom")
    with pytest.raises(TunerError, match=r"status 139: enginex\.bench: boom") as caught:
        measure_kernels(crashed, tmp_path, policy=tmp_path / "p.json")
    assert not isinstance(caught.value, UserError)


def test_an_engine_without_the_kernels(tmp_path: Path) -> None:
    bare = engine(tmp_path)
    (tmp_path / "site" / "enginex" / "bench.py").unlink()
    with pytest.raises(UserError, match="has no enginex kernels"):
        measure_kernels(bare, tmp_path, policy=tmp_path / "p.json")


def test_an_image_is_measured_where_it_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is an image"):
        measure_kernels(engine(tmp_path, image="sha256:1"), tmp_path, policy=tmp_path / "p.json")


def test_a_policy_file_that_cannot_be_written_is_said_first(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for policy in (tmp_path, tmp_path / "file" / "policy.json"):
        with pytest.raises(UserError, match="cannot be written"):
            measure_kernels(engine(tmp_path / policy.name), tmp_path, policy=policy)
