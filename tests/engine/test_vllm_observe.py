from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from observe.models import Model

from enginex import lines, vllm_observe
from enginex.observe.runner import StepTimer
from enginex.observe.step import Step
from enginex.settings import Settings


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is printed; this process is rank 0."""
    found: list[str] = []
    monkeypatch.setattr(lines, "emit", found.append)
    monkeypatch.setattr(vllm_observe, "_rank", lambda: 0)
    return found


def config(mode: int) -> Any:
    return SimpleNamespace(compilation_config=SimpleNamespace(mode=mode))


@given(tokens=st.integers(0, 90), experts=st.integers(1, 300), seed=st.integers(0, 99))
def test_distinct_counts_as_unique_does(tokens: int, experts: int, seed: int) -> None:
    made = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, experts, (tokens, 8), generator=made)
    assert vllm_observe.distinct(ids) == ids.unique().numel()


def test_only_the_first_layers_choice_is_counted_and_the_result_is_the_engines() -> None:
    module = ModuleType("routed_experts")

    class RoutedExperts:
        def forward_modular(self, x: Any, topk_weights: Any, topk_ids: Any) -> Any:
            return x, topk_weights, topk_ids

    module.RoutedExperts = RoutedExperts  # type: ignore[attr-defined] - as vLLM's module has it
    timer = StepTimer([])
    vllm_observe._count_experts(module, timer)
    timer.begin()
    ids = torch.tensor([[1, 2], [2, 3]])
    assert RoutedExperts().forward_modular(x=1, topk_weights=2, topk_ids=ids) == (1, 2, ids)
    assert timer._experts == 3
    assert RoutedExperts().forward_modular(1, 2, ids)[:2] == (1, 2)
    assert timer._experts == 3


def test_an_eager_model_is_watched_by_layer_and_a_compiled_one_by_its_logits(
    printed: list[str],
) -> None:
    model = Model()
    for mode, scope in ((0, "scope=layers layers=8"), (3, "scope=logits layers=0")):
        looking = vllm_observe._Looking(Settings(watch=True))
        assert looking.watch is not None
        looking.watch._write = printed.append
        looking.loaded(model, config(mode))
        assert scope in printed[-1]


def test_a_compiled_model_is_not_touched_by_the_profile() -> None:
    model = Model()
    looking = vllm_observe._Looking(Settings(profile=True))
    assert looking.profile is not None
    said: list[str] = []
    looking.profile._write = said.append
    looking.loaded(model, config(3))
    assert "scope=step" in said[0]
    assert not any("forward" in vars(module) for module in model.modules())
    looking.loaded(model, config(0))
    assert "scope=stages" in said[1]
    looking.profile.begin(1)
    model(torch.randn(2, 8))
    looking.profile.done(Step(1), 1.0)
    stages = looking.profile.figures()["decode"]["stages"]
    counts = {name: stage["count"] for name, stage in stages.items()}
    assert counts == {
        "gdn": 2,
        "attention": 2,
        "mlp": 4,
        "router": 4,
        "shared_expert": 4,
        "norms": 9,
        "logits": 1,
        "other": 1,
    }


@pytest.mark.parametrize("rank", [0, 1])
def test_only_one_rank_writes_records(
    rank: int, printed: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(vllm_observe, "_rank", lambda: rank)
    path = tmp_path / "steps.jsonl"
    looking = vllm_observe._Looking(Settings(step_records=str(path)))
    looking.loaded(Model(), config(0))
    looking.loaded(Model(), config(0))  # a draft model: no second writer
    for observer in looking.timer._observers:
        observer.done(Step(1), 0.5)
        observer.close()  # type: ignore[attr-defined] - the records are the only one
    assert path.exists() == (rank == 0)
    assert printed == ["[enginex] steps records=on experts=first_layer"][: 1 - rank]
    if rank == 0:
        assert json.loads(path.read_text(encoding="utf-8"))["seconds"] == 0.5


def test_a_timed_method_gives_what_it_gave() -> None:
    class Router:
        def select_experts(self, x: int) -> int:
            return x * 2

    looking = vllm_observe._Looking(Settings(profile=True))
    assert looking.profile is not None
    vllm_observe._time(Router, "select_experts", "router", looking.profile)
    assert Router().select_experts(4) == 8
    looking.profile.begin(1)
    assert Router().select_experts(x=4) == 8
    looking.profile.done(Step(1), 1.0)
    assert looking.profile.figures()["decode"]["stages"]["router"]["count"] == 1
