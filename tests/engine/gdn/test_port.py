"""The lines that the reference gives to whoever ports a model: run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

from enginex.gdn.contract import unit
from enginex.gdn.gates import gates
from enginex.gdn.reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "enginex.md"
HK, HV, DK, DV = 2, 4, 16, 8


def lines_of_the_page() -> dict[str, Any]:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), found)  # noqa: S102 - our own page
    return found


def test_a_prompt_in_two_pieces_and_steps_are_the_rule() -> None:
    made = torch.Generator().manual_seed(4)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=made)

    port, tokens = lines_of_the_page(), 83
    q, k, v = drawn(tokens, HK, DK), drawn(tokens, HK, DK), drawn(tokens, HV, DV)
    a, b, a_log, bias = drawn(tokens, HV), drawn(tokens, HV), drawn(HV), drawn(HV)
    pool = torch.full((3, HV, DK, DV), torch.nan)  # a slot holds whatever its last sequence left
    layer = (a_log, bias, pool)
    out = [port["prefill"](q[:50], k[:50], v[:50], a[:50], b[:50], *layer, slot=1, first=True)]
    out.append(
        port["prefill"](
            q[50:80], k[50:80], v[50:80], a[50:80], b[50:80], *layer, slot=1, first=False
        )
    )
    for t in range(80, tokens):
        one = slice(t, t + 1)
        out.append(port["step"](q[one], k[one], v[one], a[one], b[one], *layer, torch.tensor([1])))
    g, beta = gates(a_log, a, b, bias)
    exact = reference(unit(q), unit(k), v, g, beta)
    torch.testing.assert_close(torch.cat(out).double(), exact.out, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(pool[1].double(), exact.state, rtol=1e-4, atol=1e-5)
    assert bool(pool[[0, 2]].isnan().all())
