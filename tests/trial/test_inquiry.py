"""What is made of an engine's answers about many points."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.build.test_kernels import engine
from tests.launch.test_preflight import sitecustomize, stand_in
from tuner.errors import UserError
from tuner.launch.preflight import Answer
from tuner.spec import Context, Hardware, parse_space
from tuner.spec.deployment import Deployment
from tuner.trial import inquiry
from tuner.trial.inquiry import as_json, as_lines, inquire, told

SPACE = """
version: 1
study: asked
engine: {{recipe: cpu, model: {{path: {model}}}}}
parameters:
  seqs: {{flag: --max-num-seqs, choices: [1, 8, 70, 80], baseline: 1}}
  batch: {{flag: --max-num-batched-tokens, choices: [512, 2048], baseline: 512}}
workload: {{kind: conversations, conversations: 1, turns: 1, concurrency: 1, turn_tokens: 9, output_tokens: 1}}
budget: {{trials: 3}}
"""


def test_points_are_counted_by_what_was_said_of_them() -> None:
    start = {"a": 1}
    heard = [
        ({"a": 1}, Answer(accepted=True)),
        ({"a": 2}, Answer(accepted=False, error="1 validation error\n  Value error, 2 is less than 4096. [x]\n  see")),
        ({"a": 3}, Answer(accepted=False, error="1 validation error\n  Value error, 3 is less than 4096. [x]\n  see")),
        ({"a": 4}, Answer(accepted=False, error="")),
        ({"a": 5}, Answer(accepted=None, error="it crashed")),
    ]  # fmt: skip
    found = told(heard, start, seconds=1.25)
    assert as_lines(found) == [
        "asked the engine about 5 points (1.2 s): it takes 1 and refuses 3",
        "  2 x Value error, 2 is less than 4096. [x]",
        "      such as: a 2",
        "  1 x no reason given",
        "      such as: a 4",
        "  1 without an answer: it crashed",
    ]
    data = json.loads(json.dumps(as_json(found)))
    assert data["refused"][0] == {
        "words": "Value error, 2 is less than 4096. [x]", "count": 2, "example": {"a": 2},
    }  # fmt: skip
    assert (data["asked"], data["accepted"], data["unanswered"]) == (5, 1, 1)


def test_the_engine_is_asked_about_the_points_of_a_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    site = stand_in(tmp_path / "engine" / "standin")
    own = engine(tmp_path / "engine", PYTHONPATH=str(site))
    monkeypatch.setattr(inquiry, "build_engine", lambda *_, **__: own)
    space = parse_space(SPACE.format(model=model), tmp_path / "space.yaml")
    context: Any = Context(
        Hardware(0, 2, 2**34, 0), tuple((x.name, x.workload) for x in space.loads)
    )
    found = inquire(space, context, count=100)
    assert (found.asked, found.accepted, found.unanswered) == (8, 4, 0)
    assert [(one.words, one.count) for one in found.refusals] == [
        (f"ValueError: max_num_seqs {found.refusals[0].example['seqs']} is too many", 4)
    ]
    package = str(site / "vllm" / "__init__.py")
    assert as_lines(found)[-1] == f"engine cpu imports vllm from {package}"
    assert as_json(found)["packages"] == {"cpu": package}


def test_an_engine_whose_package_is_shadowed_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, site = stand_in(tmp_path / "checkout"), stand_in(tmp_path / "engine" / "standin")
    odd = sitecustomize(tmp_path / "odd", tree)
    own = engine(tmp_path / "engine", PYTHONPATH=f"{odd}:{site}")
    asked = Deployment("cpu", "m", "process", (), (), "llm")
    with pytest.raises(UserError, match=r"engine cpu imports vllm from .*checkout/vllm.* not of"):
        inquiry.ask(own, tmp_path, [asked])
