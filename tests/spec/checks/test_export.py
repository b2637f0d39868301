from __future__ import annotations

from collections.abc import Callable

import pytest

from tuner.errors import SpaceError
from tuner.spec import SearchSpace

Build = Callable[..., SearchSpace]


@pytest.mark.parametrize(
    ("export", "said"),
    [
        ("{env: {HF_TOKEN: canary}}", "HF_TOKEN seems to hold a secret"),
        ("{env: {VLLM_API_KEY: canary}}", "VLLM_API_KEY seems to hold a secret"),
        ("{env: {LD_PRELOAD: canary}}", "LD_PRELOAD makes processes load code"),
        ("{python: -canary}", "-canary would be read as a flag"),
        ("{model_path: -canary}", "-canary would be read as a flag"),
        ("{dir: 'out/{stdy}'}", "{stdy} stands for nothing here"),
    ],
)
def test_what_may_not_be_exported(build: Build, export: str, said: str) -> None:
    with pytest.raises(SpaceError) as caught:
        build(f"export: {export}")
    assert said in str(caught.value)
    assert ("canary" in str(caught.value)) is ("flag" in said)


def test_code_may_be_exported_where_the_space_allows_it_and_secrets_never(build: Build) -> None:
    engine = "engine: {recipe: cpu, model: {make: x}, allow_code: true}\n"
    found = build(engine + "export: {env: {PYTHONPATH: /opt/lib, A: 1}, python: ./python}")
    assert found.export.env == {"PYTHONPATH": "/opt/lib", "A": 1}
    with pytest.raises(SpaceError, match="does not belong into an exported file"):
        build(engine + "export: {env: {MY_SECRET: x}}")
