from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from moe.cases import Case, cases, make
from native.packing import pack

from enginex.moe.reference import error_bound, reference
from enginex.native import library
from enginex.native.library import Experts, Kernels, Layout

if not library.library_path().exists():
    pytest.skip(
        "needs the compiled kernel: python -m enginex.native.build", allow_module_level=True
    )
LAYOUTS = [
    (torch.bfloat16, Layout.PAIRS),
    *(
        (d, o)
        for d in (torch.bfloat16, torch.float16, torch.float32)
        for o in (Layout.ROWS, Layout.LANES)
    ),
]


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return library.load()


def packed(case: Case, layout: Layout) -> Experts:
    return Experts(pack(case.w13, layout), pack(case.w2, layout), *case.w2.shape, layout, case.form)


@given(case=cases(max_tokens=40), isa=st.sampled_from(library.load().runnable()))
def test_every_instruction_set_lies_within_the_bound(case: Case, isa: str) -> None:
    out = library.load().moe(
        Experts.of_rows(case.w13, case.w2, case.form), case.hidden, case.weights, case.ids, isa=isa
    )
    away = (out.double() - reference(*case.tensors)).abs()
    assert bool((away <= error_bound(*case.tensors)).all())


@given(
    kind=st.sampled_from(LAYOUTS),
    isa=st.sampled_from(library.load().runnable()),
    seed=st.integers(0, 2**20),
    tokens=st.integers(1, 20),
    width=st.sampled_from([32, 64, 96, 160]),
    inner=st.sampled_from([32, 64, 288]),
    biased=st.booleans(),
)
def test_packed_weights_give_what_rows_give(
    kind: tuple[torch.dtype, Layout],
    isa: str,
    seed: int,
    tokens: int,
    width: int,
    inner: int,
    biased: bool,  # noqa: FBT001 - drawn by hypothesis
) -> None:
    dtype, layout = kind
    if layout == Layout.PAIRS and isa != "avx512bf16":
        return
    case = make(
        seed,
        tokens,
        6,
        width,
        inner,
        3,
        dtype=dtype,
        biased=biased,
        activation="gelu_tanh",
        duplicates=True,
    )
    out = library.load().moe(packed(case, layout), case.hidden, case.weights, case.ids, isa=isa)
    away = (out.double() - reference(*case.tensors)).abs()
    assert bool((away <= error_bound(*case.tensors)).all())


def test_the_number_of_threads_changes_nothing(kernels: Kernels) -> None:
    case = make(11, 12, 16, 256, 96, 4)
    experts = packed(case, Layout.ROWS)
    threads = torch.get_num_threads()
    results = []
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            results.append(kernels.moe(experts, case.hidden, case.weights, case.ids))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_many_tokens_share_an_expert(kernels: Kernels) -> None:
    case = make(4, 100, 3, 64, 32, 3)
    out = kernels.moe(packed(case, Layout.ROWS), case.hidden, case.weights, case.ids)
    exact = reference(*case.tensors)
    assert bool(((out.double() - exact).abs() <= error_bound(*case.tensors)).all())


def test_nan_and_infinity_come_through(kernels: Kernels) -> None:
    case = make(5, 3, 4, 64, 32, 2)
    case.hidden[1, 3] = float("nan")
    out = kernels.moe(packed(case, Layout.ROWS), case.hidden, case.weights, case.ids)
    assert bool(out[1].isnan().all())
    assert bool(out[0].isfinite().all())
    assert bool(out[2].isfinite().all())


def test_out_is_written_in_place(kernels: Kernels) -> None:
    case = make(6, 2, 4, 64, 32, 2)
    out = torch.full_like(case.hidden, float("nan"))
    assert kernels.moe(packed(case, Layout.ROWS), case.hidden, case.weights, case.ids, out) is out
    assert bool(out.isfinite().all())


@pytest.mark.parametrize("bad", [-1, 4, 2**31 - 1])
def test_an_expert_that_does_not_exist_is_refused(kernels: Kernels, bad: int) -> None:
    case = make(6, 2, 4, 64, 32, 2)
    case.ids[1, 1] = bad
    with pytest.raises(ValueError, match="topk_ids must lie in 0 to 3"):
        kernels.moe(packed(case, Layout.ROWS), case.hidden, case.weights, case.ids)


def test_what_does_not_fit_is_refused_before_the_kernel_sees_it(kernels: Kernels) -> None:
    case = make(6, 2, 4, 48, 32, 2)
    rows = packed(case, Layout.ROWS)
    with pytest.raises(ValueError, match="do not fit 64"):
        kernels.moe(replace(rows, width=64), case.hidden, case.weights, case.ids)
    with pytest.raises(ValueError, match="the weights do not have"):
        kernels.moe(replace(rows, experts=5), case.hidden, case.weights, case.ids)
    with pytest.raises(ValueError, match="width 48 and inner 32 do not fit the layout LANES"):
        kernels.moe(replace(rows, layout=Layout.LANES), case.hidden, case.weights, case.ids)
    with pytest.raises(ValueError, match="dtypes differ"):
        kernels.moe(rows, case.hidden.float(), case.weights, case.ids)
    with pytest.raises(ValueError, match="out must be contiguous"):
        kernels.moe(rows, case.hidden, case.weights, case.ids, case.hidden.float())
    wide = make(6, 2, 4, 64, 32, 2, dtype=torch.float32)
    with pytest.raises(ValueError, match=r"does not read torch\.float32 in the layout PAIRS"):
        kernels.moe(
            replace(packed(wide, Layout.ROWS), layout=Layout.PAIRS),
            wide.hidden,
            wide.weights,
            wide.ids,
        )
    with pytest.raises(ValueError, match="does not have 'sse9'"):
        kernels.moe(rows, case.hidden, case.weights, case.ids, isa="sse9")


def test_the_library_computes_with_the_threads_of_torch(kernels: Kernels) -> None:
    case = make(4, 8, 16, 256, 96, 4)
    torch.randn(1 << 22).add_(1)  # torch's own threads are there from here on
    before = len(list(Path("/proc/self/task").iterdir()))
    kernels.moe(packed(case, Layout.ROWS), case.hidden, case.weights, case.ids)
    assert len(list(Path("/proc/self/task").iterdir())) == before


def test_a_second_openmp_runtime_in_the_process_is_left_alone(tmp_path: Path) -> None:
    code = f"""
import ctypes, shutil, sys
from pathlib import Path
import torch
from enginex.native import library
torch.randn(1 << 22).add_(1)
bound = library._file_of(library._symbol_of_torch("GOMP_parallel"))
copy = Path({str(tmp_path)!r}) / "libgomp-a.so.1"
shutil.copy(bound, copy)
ctypes.CDLL(str(copy))
before = len(list(Path("/proc/self/task").iterdir()))
w13, w2 = torch.randn(4, 64, 256), torch.randn(4, 256, 32)
ids = torch.tensor([[0, 1]] * 8)
library.load().moe(library.Experts.of_rows(w13, w2), torch.randn(8, 256), torch.ones(8, 2), ids)
again = library._file_of(library._symbol_of_torch("GOMP_parallel"))
print(len(list(Path("/proc/self/task").iterdir())) - before, again == bound)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.split() == ["0", "True"], done.stderr[-2000:]


def test_vllm_packs_as_the_layouts_say() -> None:
    ops = pytest.importorskip("vllm._custom_ops")
    weight = torch.randn(2, 64, 96).to(torch.bfloat16)
    for isa, layout in (("amx", Layout.PAIRS), ("vec", Layout.LANES)):
        assert torch.equal(
            ops.cpu_prepack_moe_weight(weight, isa).view(-1), pack(weight, layout).view(-1)
        )
