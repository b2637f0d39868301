from __future__ import annotations

from pathlib import Path

import pytest

from tuner.trial.profiled import decode_profile

OFF = "INFO:     Application startup complete.\n"
EARLY = (
    "(Worker pid=7) [enginex] profile pid=7 "
    'stages={"prefill":{"steps":1,"stages":{"gdn":{"total_s":0.5,"count":3}}}}\n'
)
LATE = (
    "[enginex] profile pid=7 "
    'stages={"decode":{"steps":189,"stages":{"gdn":{"total_s":0.29,"count":567},'
    '"other":{"total_s":0.3,"count":189}}},"prefill":{"steps":11,"stages":{}}}\n'
    "[enginex] profile | decode.gdn   290.00  0.514  567  49.2%\n"
)


def test_the_last_line_of_a_profiled_engine_counts(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(OFF + EARLY + LATE, encoding="utf-8")
    assert decode_profile(log) == {"gdn": 0.29, "other": 0.3}


@pytest.mark.parametrize(
    "text",
    [
        OFF,
        EARLY,
        LATE.splitlines()[0],  # cut off where the engine was killed
        "[enginex] profile pid=7 stages={broken\n",
        '[enginex] profile pid=7 stages={"decode":{"stages":{"gdn":{"total_s":-1}}}}\n',
        "[enginex] profile pid=7\n",
    ],
)
def test_there_is_no_profile(text: str, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(text, encoding="utf-8")
    assert decode_profile(log) == {}


def test_there_is_no_log(tmp_path: Path) -> None:
    assert decode_profile(tmp_path / "engine.log") == {}
