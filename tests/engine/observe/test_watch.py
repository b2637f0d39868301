from __future__ import annotations

import pytest
import torch
from observe.models import Model

from enginex.observe.modules import blocks
from enginex.observe.step import Step
from enginex.observe.watch import FIRST, NumericWatch


class Watched:
    def __init__(self, every: int = 16) -> None:
        self.lines: list[str] = []
        self.model = Model()
        self.watch = NumericWatch(every, self.lines.append)
        self.watch.attach(blocks(self.model), "layers")
        self.number = 0

    def step(self, tokens: int = 3) -> torch.Tensor:
        self.number += 1
        self.watch.begin(self.number)
        with torch.inference_mode():
            logits = self.model(torch.randn(tokens, 8))
        self.watch.computed(Step(self.number), logits)
        self.watch.done(Step(self.number), 0.1)
        return logits

    @property
    def covered(self) -> bool:
        return any("forward" in vars(module) for module in self.model.modules())


def test_a_sound_model_is_only_announced() -> None:
    watched = Watched()
    for _ in range(40):
        watched.step()
    assert len(watched.lines) == 1
    assert watched.lines[0].startswith(
        "[enginex] numeric watch=on every=16 scope=layers layers=8 pid="
    )


@pytest.mark.parametrize(("value", "share"), [(float("nan"), 1.0), (float("inf"), 0.0)])
def test_what_is_no_number_is_told_with_its_place(value: float, share: float) -> None:
    watched = Watched()
    with torch.no_grad():
        watched.model.model.layers[2].linear_attn[1].bias.fill_(value)
    watched.step(tokens=5)
    told = watched.lines[1:]
    assert told[0].startswith(
        f"[enginex] numeric found=non-finite where=model.layers.2.linear_attn nan={share:g} tokens=5 step=1 pid="
    )
    assert len(told) == 4  # the layers after it follow; a step tells four
    for _ in range(FIRST - 1):
        watched.step()
    places = [line.split("where=")[1].split()[0] for line in watched.lines[1:]]
    assert places == [
        "model.layers.2.linear_attn",
        "model.layers.2.mlp",
        "model.layers.3.self_attn",
        "model.layers.3.mlp",
        "logits",
    ]


def test_a_dead_layer_is_told_although_all_is_finite() -> None:
    watched = Watched()
    with torch.no_grad():
        for parameter in watched.model.model.layers[0].linear_attn.parameters():
            parameter.zero_()
    watched.step()
    assert len(watched.lines) == 2
    assert (
        "numeric found=all-zero where=model.layers.0.linear_attn tokens=3 step=1 "
        in watched.lines[1]
    )


def test_one_bad_token_of_many_is_found() -> None:
    watched = Watched()
    watched.watch.begin(1)
    x = torch.randn(50, 8)
    x[17, 3] = float("nan")
    with torch.inference_mode():
        watched.model(x)
    watched.watch.computed(Step(1), None)
    assert "where=model.layers.0.linear_attn nan=0.02 " in watched.lines[1]


def test_between_its_turns_nothing_of_it_is_in_the_model() -> None:
    watched = Watched(every=16)
    looked = []
    for number in range(1, 50):
        watched.watch.begin(number)
        if watched.covered:
            looked.append(number)
        watched.watch.computed(Step(number), None)
        assert not watched.covered
    assert looked == [*range(1, FIRST + 1), 16, 32, 48]


def test_a_step_that_failed_half_way_leaves_no_cover() -> None:
    watched = Watched()
    watched.watch.begin(1)
    watched.watch.begin(FIRST + 1)
    assert not watched.covered


def test_outputs_are_the_same_with_the_watch() -> None:
    watched = Watched()
    x = torch.randn(3, 8)
    plain = watched.model(x)
    watched.watch.begin(1)
    assert torch.equal(watched.model(x), plain)
    watched.watch.computed(Step(1), plain)
