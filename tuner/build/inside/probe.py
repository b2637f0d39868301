"""What an engine is made of: its interpreter and every distribution in it."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import sys

RESULT = "tuner-result: "


def main(_argv: list[str]) -> int:
    """Print the engine's interpreter version and its distributions."""
    print(RESULT + json.dumps({"python": platform.python_version(), "packages": packages()}))
    return 0


def packages() -> dict[str, str]:
    """Every installed distribution and its version; the first on the path wins, as it does for imports."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), distribution.version)
    return dict(sorted(found.items()))


if __name__ == "__main__":  # an engine that is not laid out yet is asked with this file alone
    sys.exit(main(sys.argv[1:]))
