from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuner.telemetry import kernel_log
from tuner.telemetry.kernel_log import KernelLog

XID = "4,1021,5140900,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"


def test_only_what_is_said_from_now_on_counts(tmp_path: Path) -> None:
    said = tmp_path / "kmsg"
    said.write_text("6,1,1,-;an old line\n")
    log = KernelLog(said)
    assert log.lines() == []
    with said.open("a") as out:
        out.write(XID)
    assert log.lines() == [XID.strip()]
    assert log.lines() == []
    log.close()
    log.close()
    assert log.lines() == []


def test_who_may_not_read_it_reads_nothing(tmp_path: Path) -> None:
    assert KernelLog(tmp_path / "none").lines() == []


def test_records_that_were_overwritten_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kmsg").touch()
    log = KernelLog(tmp_path / "kmsg")
    answers: list[bytes | OSError] = [BrokenPipeError(), XID.encode(), BlockingIOError()]

    def read(*_: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(os, "read", read)
        assert log.lines() == [XID.strip()]
    log.close()


@pytest.mark.skipif(not os.access(kernel_log.KMSG, os.R_OK), reason="the kernel's log is closed")
def test_the_real_log_can_be_asked_without_waiting() -> None:
    log = KernelLog()
    assert isinstance(log.lines(), list)
    log.close()
