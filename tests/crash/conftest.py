"""Says at the end of a run what the kills came to, also where all of them went well."""

from __future__ import annotations

from typing import Any

import pytest

TALLY = "kill points"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print a line for each suite of kill points that ran, in whichever process."""
    said = [
        f"{report.nodeid.rpartition('::')[2]}: {value}"
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
        for name, value in report.user_properties
        if name == TALLY and report.when == "call"
    ]
    if said:
        terminalreporter.section(TALLY)
        for line in said:
            terminalreporter.write_line(line)
