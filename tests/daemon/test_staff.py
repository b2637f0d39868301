from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from tuner.daemon.staff import Task, Worker


@pytest.mark.parametrize("folder", ["no such folder", "."])
def test_a_worker_that_cannot_be_started_keeps_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "no such python"))
    task = Task(
        study=1,
        name="fake",
        folder=tmp_path / folder,
        stood=str(tmp_path),
        budget={},
        secrets={},
        devices=None,
        leases=("host",),
    )

    async def start() -> None:
        worker = Worker(task, lambda _: None)
        before = psutil.Process().num_fds()
        with pytest.raises(OSError, match="no such"):
            await worker.start(tmp_path)
        assert psutil.Process().num_fds() == before
        worker.tell(do="stop")  # nobody hears it, and nothing is wrong with that
        assert await worker.wait() == 1

    asyncio.run(start())
