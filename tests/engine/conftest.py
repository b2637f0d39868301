from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(
    0, str(Path(__file__).parent)
)  # the helpers of these tests import each other by name
settings.register_profile("engine", deadline=None, max_examples=60)
settings.load_profile("engine")
