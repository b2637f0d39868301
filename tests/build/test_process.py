from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tuner.build.process import build_env, last_line, run_logged, tail


def _run(
    tmp_path: Path, code: str, *, timeout_s: float = 20.0, heard: list[str] | None = None
) -> int:
    return run_logged(
        [sys.executable, "-c", code],
        log=tmp_path / "log",
        env=build_env(),
        cwd=tmp_path,
        timeout_s=timeout_s,
        report=(heard if heard is not None else []).append,
    )


def test_output_and_status_are_kept(tmp_path: Path) -> None:
    heard: list[str] = []
    status = _run(
        tmp_path,
        "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)",
        heard=heard,
    )
    assert status == 7
    assert {"out", "err"} <= set((tmp_path / "log").read_text().split())
    assert heard[-1] in {"out", "err"}


def test_what_a_users_shell_holds_stays_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "LD_PRELOAD", "PIP_TARGET", "VIRTUAL_ENV", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "/nowhere.so")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example")
    env = build_env({"EXTRA": "1"})
    assert not {
        "PYTHONPATH",
        "LD_PRELOAD",
        "PIP_TARGET",
        "VIRTUAL_ENV",
        "AWS_SECRET_ACCESS_KEY",
    } & set(env)
    assert env["PIP_INDEX_URL"] == "https://index.example"
    assert env["EXTRA"] == "1"


def test_a_program_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    began = time.monotonic()
    assert _run(tmp_path, "import time; time.sleep(60)", timeout_s=0.3) == 124
    assert time.monotonic() - began < 10
    assert "stopped after" in (tmp_path / "log").read_text()


def test_nothing_of_a_step_outlives_it(tmp_path: Path) -> None:
    code = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid)"
    assert _run(tmp_path, code) == 0
    assert _gone(int((tmp_path / "log").read_text()))


def test_a_report_that_raises_ends_the_step(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"

    def report(_line: str) -> None:
        if pid_file.exists() and pid_file.read_text():
            raise KeyboardInterrupt

    code = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    with pytest.raises(KeyboardInterrupt):
        run_logged(
            [sys.executable, "-c", code],
            log=tmp_path / "log",
            env=build_env(),
            cwd=tmp_path,
            timeout_s=30,
            report=report,
        )
    assert _gone(int(pid_file.read_text()))


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\n\ntwo\nthree\n  10%\r  20%\n\n")
    assert tail(log, lines=3) == "three\n  10%\n  20%"
    assert last_line(log) == "20%"
    assert last_line(log, start=log.stat().st_size) == ""


def _gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if f"{pid} (sleep) Z" in Path(f"/proc/{pid}/stat").read_text():
            return True
        time.sleep(0.02)
    return False
