from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tuner.build.inside
from tuner.build.inside.probe import RESULT


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    (tmp_path / "tuner_inside").symlink_to(Path(tuner.build.inside.__file__).parent)
    return tmp_path


def _check(inside: Path, *checks: dict[str, Any]) -> list[dict[str, Any]]:
    plan = {
        "root": str(inside),
        "recipe": str(inside),
        "checks": [{"name": str(n), "when": "both", **check} for n, check in enumerate(checks)],
    }
    (inside / "plan.json").write_text(json.dumps(plan))
    done = subprocess.run(
        [sys.executable, "-m", "tuner_inside", "check", "plan.json", "verify"],
        cwd=inside,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(RESULT)]
    assert len(lines) == 1
    results: list[dict[str, Any]] = json.loads(lines[0].removeprefix(RESULT))
    assert [result["name"] for result in results] == [str(n) for n in range(len(checks))]
    return results


def _oks(inside: Path, *checks: dict[str, Any]) -> list[bool]:
    return [result["ok"] for result in _check(inside, *checks)]


def test_imports_and_versions(inside: Path) -> None:
    (inside / "lib.py").write_text("__version__ = '1.2.3+cpu'\n")
    assert _oks(
        inside,
        {"do": "import", "module": "lib", "version": None},
        {"do": "import", "module": "lib", "version": "1.2.3"},
        {"do": "import", "module": "lib", "version": "1.2.4"},
        {"do": "import", "module": "nothere", "version": None},
        {"do": "import", "module": "pytest", "version": pytest.__version__},
    ) == [True, True, False, False, True]


def test_callables(inside: Path) -> None:
    assert _oks(
        inside,
        {"do": "callable", "target": "json:JSONDecoder.decode"},
        {"do": "callable", "target": "json:decoder"},
        {"do": "callable", "target": "json:nothere"},
    ) == [True, False, False]


def test_plugins(inside: Path) -> None:
    results = _check(
        inside,
        {"do": "plugin", "group": "pytest11", "entry": "timeout"},
        {"do": "plugin", "group": "pytest11", "entry": "nothere"},
    )
    assert [result["ok"] for result in results] == [True, False]
    assert "timeout" in results[1]["detail"]


def test_files_lines_and_line_ends(inside: Path) -> None:
    (inside / "good.py").write_bytes(b"x = 1\n  y = 2\n")
    (inside / "bad.sh").write_bytes(b"one\ntwo\r\n")
    (inside / "dangling").symlink_to("nowhere")
    results = _check(
        inside,
        {"do": "text", "file": "{root}/good.py", "has": "y = 2"},
        {"do": "text", "file": "{root}/good.py", "has": "y = 3"},
        {"do": "line-ends", "files": ["{root}/*.py"]},
        {"do": "line-ends", "files": ["{root}/*.sh"]},
        {"do": "line-ends", "files": ["{root}/*.none"]},
        {"do": "file", "file": "{root}/good.py"},
        {"do": "file", "file": "{root}/dangling"},
    )
    assert [result["ok"] for result in results] == [True, False, True, False, False, True, False]
    assert results[3]["detail"] == f"{inside}/bad.sh:2: CRLF line ends"
    assert "link to nothing" in results[6]["detail"]


@pytest.mark.slow
def test_programs(inside: Path) -> None:
    def command(code: str, prints: str | None = None) -> dict[str, Any]:
        return {
            "do": "command",
            "argv": ["{python}", "-c", code],
            "prints": prints,
            "timeout_s": 20,
        }

    assert _oks(
        inside,
        command("print('it works')", "works"),
        command("print('it works')", "fails"),
        command("raise SystemExit(4)"),
        {**command("import time; time.sleep(30)"), "timeout_s": 1},
    ) == [True, False, False, False]


def test_libraries(inside: Path) -> None:
    assert _oks(
        inside,
        {"do": "library", "library": "libc.so.6"},
        {"do": "library", "library": "libnothere.so.1"},
    ) == [True, False]


def test_a_check_that_kills_the_interpreter_fails_alone(inside: Path) -> None:
    (inside / "crash.py").write_text("import os\nprint('loading')\nos.abort()\n")
    (inside / "leave.py").write_text("raise SystemExit(0)\n")
    results = _check(
        inside,
        {"do": "import", "module": "json", "version": None},
        {"do": "import", "module": "crash", "version": None},
        {"do": "import", "module": "leave", "version": None},
        {"do": "import", "module": "sys", "version": None},
    )
    assert [result["ok"] for result in results] == [True, False, False, True]
    assert "status -6" in results[1]["detail"]
