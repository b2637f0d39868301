from __future__ import annotations

import pytest
import torch
from hypothesis import given
from moe.cases import Case, cases, make

from enginex.moe import registry
from enginex.moe.contract import Form, act_and_mul, check
from enginex.moe.names import AUTO, COMPILED, NATIVE, VARIANTS
from enginex.moe.reference import error_bound, reference
from enginex.native.build import library_path

BUILT = library_path().exists()
OURS = [name for name in VARIANTS if name not in {NATIVE, AUTO} and (name != COMPILED or BUILT)]


@pytest.mark.parametrize("name", OURS)
@given(case=cases())
def test_a_variant_lies_within_the_stated_bound(name: str, case: Case) -> None:
    check(*case.tensors)
    out = registry.get(name)(*case.tensors)
    assert out.shape == case.hidden.shape
    assert out.dtype == case.hidden.dtype
    away = (out.double() - reference(*case.tensors)).abs()
    assert bool((away <= error_bound(*case.tensors)).all())


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(
    ("dtype", "relative"), [(torch.bfloat16, 6e-3), (torch.float16, 8e-4), (torch.float32, 1e-6)]
)
@pytest.mark.parametrize("tokens", [1, 3, 16])
def test_at_a_real_size_the_error_is_a_rounding(
    name: str, dtype: torch.dtype, relative: float, tokens: int
) -> None:
    case = make(7, tokens, 32, 256, 128, 8, dtype=dtype)
    exact = reference(*case.tensors)
    away = torch.linalg.vector_norm(registry.get(name)(*case.tensors).double() - exact)
    assert float(away / torch.linalg.vector_norm(exact)) < relative


def test_the_bound_tells_a_wrong_result_from_a_right_one() -> None:
    case = make(3, 4, 8, 64, 32, 2)
    exact, bound = reference(*case.tensors), error_bound(*case.tensors)
    swapped = case.w13.roll(32, dims=1)  # up and gate exchanged
    wrong = registry.get("loop")(case.hidden, swapped, *case.tensors[2:])
    assert bool(((wrong.double() - exact).abs() > bound).any())
    assert bool((bound < 0.3 * exact.abs().max()).all())


@pytest.mark.parametrize("name", OURS)
def test_weights_are_used_as_they_come(name: str) -> None:
    case = make(1, 2, 4, 16, 8, 2, dtype=torch.float32)
    hidden, w13, w2, weights, ids, form = case.tensors
    once = registry.get(name)(hidden, w13, w2, weights, ids, form)
    twice = registry.get(name)(hidden, w13, w2, 2 * weights, ids, form)
    torch.testing.assert_close(twice, 2 * once)


@pytest.mark.parametrize("name", OURS)
def test_shards_of_a_layer_sum_to_the_layer(name: str) -> None:
    case = make(5, 3, 6, 32, 16, 2, dtype=torch.float32)
    hidden, w13, w2, weights, ids, form = case.tensors
    whole = registry.get(name)(hidden, w13, w2, weights, ids, form)
    gate, up = w13.chunk(2, dim=1)
    parts = [
        registry.get(name)(
            hidden,
            torch.cat([gate[:, at : at + 8], up[:, at : at + 8]], dim=1),
            w2[:, :, at : at + 8].contiguous(),
            weights,
            ids,
            form,
        )
        for at in (0, 8)
    ]
    torch.testing.assert_close(parts[0] + parts[1], whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OURS)
def test_inputs_are_not_written_to(name: str) -> None:
    case = make(2, 4, 8, 24, 8, 4)
    before = [t.clone() for t in case.tensors[:5]]
    registry.get(name)(*case.tensors)
    assert all(torch.equal(a, b) for a, b in zip(before, case.tensors[:5], strict=True))


def test_activation_is_computed_in_fp32() -> None:
    gate_up = torch.tensor([[30.0, 3.0]], dtype=torch.float16)
    assert act_and_mul(gate_up * 1000, "silu").isinf().all()  # the product leaves fp16, as it must
    assert act_and_mul(gate_up, "gelu").item() == 90.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": torch.tensor([[0, 9]])}, "topk_ids must lie in 0 to 3"),
        ({"ids": torch.tensor([[0, -1]])}, "topk_ids must lie in 0 to 3"),
        ({"w2": torch.zeros(4, 8, 3)}, "w2 has the shape"),
        ({"hidden": torch.zeros(1, 8).half()}, "dtypes differ"),
        ({"form": Form("swigluoai")}, "activation 'swigluoai' is not one of"),
        ({"form": Form(b13=torch.zeros(4, 5))}, "b13 has the shape"),
    ],
)
def test_the_check_names_what_is_wrong(change: dict[str, object], message: str) -> None:
    case = make(0, 1, 4, 8, 4, 2, dtype=torch.float32)
    names = ("hidden", "w13", "w2", "weights", "ids", "form")
    tensors = dict(zip(names, case.tensors, strict=True)) | change
    with pytest.raises(ValueError, match=message):
        check(*tensors.values())  # type: ignore[arg-type] - wrong ones are the point
