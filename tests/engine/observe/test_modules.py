from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from observe.models import Model
from torch import nn

from enginex.observe.modules import blocks, cover, stage_of


@pytest.mark.parametrize(
    ("path", "stage"),
    [
        ("model.layers.0.linear_attn", "gdn"),
        ("model.layers.0.linear_attn.norm", None),  # its own business
        ("model.layers.3.self_attn", "attention"),
        ("model.layers.3.self_attn.attn", None),
        ("model.layers.3.self_attn.q_norm", None),
        ("model.layers.3.mlp", "mlp"),
        ("model.layers.3.mlp.gate", "router"),
        ("model.layers.3.mlp.gate_up_proj", None),
        ("model.layers.3.mlp.shared_expert", "shared_expert"),
        ("model.layers.3.mlp.shared_expert.down_proj", None),
        ("model.layers.3.mlp.experts", None),
        ("model.layers.3.input_layernorm", "norms"),
        ("language_model.model.norm", "norms"),
        ("model.embed_tokens", None),
        ("logits_processor", "logits"),
    ],
)
def test_stages_by_path(path: str, stage: str | None) -> None:
    assert stage_of(path) == stage


def test_the_blocks_of_a_model_are_its_attention_gdn_and_experts() -> None:
    found = [path.removeprefix("model.layers.") for path, _ in blocks(Model())]
    assert found == [
        *("0.linear_attn", "0.mlp", "1.self_attn", "1.mlp"),
        *("2.linear_attn", "2.mlp", "3.self_attn", "3.mlp"),
    ]


def test_covers_lie_on_each_other_and_leave_nothing() -> None:
    module, seen = nn.Linear(2, 2), []

    def wrapper(name: str) -> Callable[..., Any]:
        def call(forward: Callable[..., Any], *args: Any) -> Any:
            seen.append(name)
            return forward(*args)

        return call

    x = torch.ones(1, 2)
    expected = module(x)
    undo_outer = cover(module, wrapper("first"))
    undo_inner = cover(module, wrapper("second"))
    assert torch.equal(module(x), expected)
    assert seen == ["second", "first"]
    undo_inner()
    module(x)
    assert seen == ["second", "first", "first"]
    undo_outer()
    module(x)
    assert len(seen) == 3
    assert "forward" not in vars(module)
