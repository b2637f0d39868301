import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from tuner.errors import TelemetryLost
from tuner.telemetry.command import Tool


def tool(tmp_path: Path, body: str, *, timeout: float = 20.0) -> Tool:
    program = tmp_path / "tool"
    program.write_text(f"#!{sys.executable} -S\n{body}\n")
    program.chmod(0o755)
    return Tool(str(program), timeout=timeout)


def test_output_of_both_streams(tmp_path: Path) -> None:
    text = tool(tmp_path, "import sys; print('out', sys.argv[1]); sys.stderr.write('err')").run(
        ["a"]
    )
    assert text == "out a\nerr"


def test_a_failing_exit_still_tells(tmp_path: Path) -> None:
    assert tool(tmp_path, "print('why'); raise SystemExit(3)").run([]) == "why\n"


def test_more_output_than_a_pipe_holds_does_not_stall(tmp_path: Path) -> None:
    text = tool(tmp_path, "print('x' * 9_000_000)").run([])
    assert len(text) == 4 * 2**20


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(TelemetryLost, match="cannot be started"):
        Tool(str(tmp_path / "none"), timeout=1).run([])


@pytest.mark.slow
def test_the_children_of_a_hanging_tool_go_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    body = (
        "import os, time, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n"
        f"    open({str(note)!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(60)"
    )
    with pytest.raises(TelemetryLost, match="took more than"):
        tool(tmp_path, body, timeout=1.0).run([])
    child = int(note.read_text())
    deadline = time.monotonic() + 5
    while psutil.pid_exists(child) and time.monotonic() < deadline:
        if psutil.Process(child).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.02)
    else:
        assert not psutil.pid_exists(child)


@pytest.mark.slow
def test_a_tool_that_no_signal_reaches_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uninterruptible sleep cannot be made here, so the kill is made to do nothing."""
    slow = tool(tmp_path, "import time; time.sleep(1)", timeout=0.1)
    monkeypatch.setattr("tuner.telemetry.command._KILL_WAIT", 0.1)
    with monkeypatch.context() as deaf:
        deaf.setattr(os, "killpg", lambda *_: None)
        with pytest.raises(TelemetryLost, match="took more than"):
            slow.run([])
    with pytest.raises(TelemetryLost, match="still hangs"):
        slow.run([])
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            slow.run([])
        except TelemetryLost as problem:
            if "took more than" in str(problem):
                return
            time.sleep(0.1)
    pytest.fail("the tool was never tried again")


def test_cpu_time_is_counted(tmp_path: Path) -> None:
    busy = tool(tmp_path, "import time\nwhile time.process_time() < 0.15: pass")
    busy.run([])
    assert 0.1 <= busy.cpu_seconds < 5
