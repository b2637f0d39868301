from __future__ import annotations

from pathlib import Path

from tuner.spec import parse_space
from tuner.trial.entry import secret_names

SPACE = """
version: 1
study: secrets
engine:
  recipe: cpu
  model: {make: tiny-hybrid}
  env: {HF_TOKEN: {from_env: FIXED}, A: "1"}
parameters:
  mode:
    bundle:
      plain: {}
      hub: {env: {OTHER_TOKEN: {from_env: BUNDLED}, HF_TOKEN: {from_env: FIXED}}}
    baseline: plain
budget: {trials: 1}
workload: {kind: conversations, conversations: 1, turns: 1, concurrency: 1, turn_tokens: 9, output_tokens: 9}
"""


def test_secrets_of_the_engine_and_of_bundles_are_all_known() -> None:
    """Only a secret that is known is asked for before the start, and kept out of every log."""
    assert secret_names(parse_space(SPACE, Path("space.yaml"))) == ("BUNDLED", "FIXED")
