"""``python -m tuner_inside apply|check|probe …``: the three things done inside an engine."""

from __future__ import annotations

import sys

from . import apply, check, probe

_COMMANDS = {"apply": apply.main, "check": check.main, "probe": probe.main}

if __name__ == "__main__":
    sys.exit(_COMMANDS[sys.argv[1]](sys.argv[2:]))
