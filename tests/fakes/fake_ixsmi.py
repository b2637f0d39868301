#!/usr/bin/env python3
"""A stand-in for ixsmi: answers from the JSON file that $FAKE_IXSMI names.

The file holds `cards` (a list of objects, one a card, keys as in the query) and switches:
`known` (the fields that this release knows), `units` (whether values carry units), `csv` (whether
the query works at all), `table` (what is printed without arguments), `hang` (seconds to sleep first),
`log` (a file that gets one line for each run).
"""

import json
import os
import sys
import time
from pathlib import Path

UNITS = {
    "memory.used": "MiB", "memory.total": "MiB", "utilization.gpu": "%", "temperature.gpu": "C",
    "power.draw": "W", "gpu.power.draw": "W", "board.power.draw": "W", "clocks.sm": "MHz",
    "clocks.mem": "MHz",
}  # fmt: skip


def main() -> int:
    spec = json.loads(Path(os.environ["FAKE_IXSMI"]).read_text())
    if "log" in spec:
        with Path(spec["log"]).open("a") as log:
            log.write(" ".join(sys.argv[1:]) + "\n")
    time.sleep(spec.get("hang", 0))
    query = next((a for a in sys.argv[1:] if a.startswith("--query-gpu=")), None)
    if query is None:
        sys.stdout.write(spec.get("table", ""))
        return 0
    if not spec.get("csv", True):
        sys.stdout.write("ERROR: Option --query-gpu is not recognized.\n")
        return 1
    fields = query.partition("=")[2].split(",")
    for field in fields:
        if field not in spec["known"]:
            sys.stdout.write(f'Field "{field}" is not a valid field to query.\n')
            return 2
    sys.stdout.write(", ".join(fields) + "\n")
    for card in spec["cards"]:
        cells = []
        for field in fields:
            value = card.get(field, "N/A")
            unit = UNITS.get(field) if spec.get("units", True) and value != "N/A" else None
            cells.append(f"{value} {unit}" if unit else str(value))
        sys.stdout.write(", ".join(cells) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
