"""A small model with the parts of those that are served, under the names that vLLM gives them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Layer(nn.Module):
    def __init__(self, width: int, *, linear: bool) -> None:
        super().__init__()
        self.input_layernorm = nn.LayerNorm(width)
        if linear:
            self.linear_attn = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width))
        else:
            self.self_attn = nn.Linear(width, width)
        self.linear = linear
        self.post_attention_layernorm = nn.LayerNorm(width)
        self.mlp = Experts(width)

    def forward(self, x: Tensor) -> Tensor:
        mix = self.linear_attn if self.linear else self.self_attn
        x = x + mix(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Experts(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 4)
        self.shared_expert = nn.Sequential(nn.Linear(width, width))
        self.experts = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.experts(x) * self.gate(x).mean() + self.shared_expert(x)


class Model(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.model = nn.Module()
        self.model.layers = nn.ModuleList([Layer(width, linear=i % 2 == 0) for i in range(4)])
        self.model.norm = nn.LayerNorm(width)
        self.logits_processor = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.model.layers:
            x = layer(x)
        return self.logits_processor(self.model.norm(x))
