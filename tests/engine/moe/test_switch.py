from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from moe.cases import Case, make
from moe.stand_in import Experts, config, loaded, step

from enginex.moe import switch as module
from enginex.moe.names import AUTO, COMPILED, NATIVE, VARIANTS
from enginex.moe.policy import Key, Policy, cpu_device
from enginex.moe.reference import error_bound, reference
from enginex.moe.switch import MoeSwitch
from enginex.native.build import library_path
from enginex.settings import Settings
from enginex.vllm_cpu import patch_experts, patch_loader

OURS = [
    v for v in VARIANTS if v not in {NATIVE, AUTO} and (v != COMPILED or library_path().exists())
]


class Engine:
    """The stand-in class, patched, with some loaded layers."""

    def __init__(self, settings: Settings, policy: Policy | None = None) -> None:
        self.lines: list[str] = []
        self.switch = MoeSwitch(settings, policy, self.lines.append)
        self.cls = type("Patched", (Experts,), {})
        self.cls.process_weights_after_loading = Experts.process_weights_after_loading
        self.cls.apply = Experts.apply
        patch_experts(SimpleNamespace(CPUUnquantizedExperts=self.cls), self.switch)  # type: ignore[arg-type]

    def load(self, case: Case, **changes: Any) -> tuple[Any, Any]:
        cfg = config(case.w2, case.ids.shape[1], case.form.activation, **changes)
        experts, layer = self.cls(cfg, case.form.b13, case.form.b2), loaded(case.w13, case.w2)
        experts.process_weights_after_loading(layer)
        return experts, layer

    def fields(self) -> dict[str, str]:
        assert self.lines[0].startswith("[enginex] moe variant=")
        return dict(part.split("=", 1) for part in self.lines[0].split()[2:])


@pytest.fixture
def engine() -> Any:
    made: list[Engine] = []

    def make_one(impl: str, most: int = 4, policy: Policy | None = None, **settings: Any) -> Engine:
        made.append(Engine(Settings(moe=True, moe_impl=impl, moe_max=most, **settings), policy))
        return made[-1]

    yield make_one
    for one in made:
        one.switch.steps.stop()


@pytest.fixture(autouse=True)
def serving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_serving", lambda: lambda: True)


Make = Callable[..., Engine]


def run(experts: Any, layer: Any, case: Case, **changes: Any) -> torch.Tensor:
    return step(experts, layer, case.hidden, case.weights, case.ids, **changes)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("tokens", [1, 4, 5])
def test_a_step_on_either_side_of_the_limit(engine: Make, name: str, tokens: int) -> None:
    case = make(1, tokens, 8, 48, 24, 3, biased=True, activation="gelu")
    eng = engine(name)
    experts, layer = eng.load(case)
    eng.switch.announce()
    before = experts.calls
    out = run(experts, layer, case)
    assert (experts.calls > before) == (tokens > 4)
    assert bool(
        ((out.double() - reference(*case.tensors)).abs() <= error_bound(*case.tensors)).all()
    )
    assert eng.fields()["effective"] == name


def test_the_marker_says_what_took_effect(engine: Make) -> None:
    case = make(1, 2, 8, 64, 32, 2)
    eng = engine("loop")
    eng.load(case, rank=1)
    eng.load(case, rank=1)
    eng.switch.announce()
    fields = eng.fields()
    expected = {
        "variant": "loop",
        "max_tokens": "4",
        "effective": "loop",
        "layers": "2",
        "dtype": "bf16",
        "experts": "8",
        "topk": "2",
        "hidden": "64",
        "inter": "32",
        "kept_mib": "0",
        "rank": "1",
    }
    assert {key: fields[key] for key in expected} == expected
    assert "reason" not in fields
    assert len(eng.lines) == 1


def test_the_loader_announces_and_a_step_alone_does_too(engine: Make) -> None:
    case = make(1, 2, 8, 64, 32, 2)
    eng = engine("bmm")

    class Loader:
        def load_model(self, model: str) -> str:
            eng.load(case)
            return model

    patch_loader(SimpleNamespace(BaseModelLoader=Loader), eng.switch)  # type: ignore[arg-type]
    assert Loader().load_model("m") == "m"
    assert eng.fields()["effective"] == "bmm"
    other = engine("bmm")
    run(*other.load(case), case)
    assert other.fields()["effective"] == "bmm"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"activation": "swigluoai"}, "activation_swigluoai"),
        ({"use_ep": True}, "expert_parallel"),
        ({"dtype": torch.float64}, "dtype_float64"),
    ],
)
def test_what_the_contract_does_not_cover_stays_with_the_engine(
    engine: Make, change: dict[str, Any], reason: str
) -> None:
    case = make(1, 2, 8, 64, 32, 2, dtype=change.get("dtype", torch.bfloat16))
    eng = engine("loop")
    experts, _ = eng.load(case, use_ep=change.get("use_ep", False))
    if "activation" in change:
        experts.moe_config.activation.value = change["activation"]
    eng.switch.announce()
    assert eng.fields()["effective"] == "native"
    assert eng.fields()["reason"] == reason
    assert eng.fields()["kept_mib"] == "0"


def test_a_result_that_disagrees_is_not_used(engine: Make) -> None:
    case = make(1, 2, 8, 64, 32, 2)
    eng = engine("loop")
    experts, layer = eng.load(case)
    experts.wrong_by = 0.5
    eng.switch.announce()
    assert eng.fields()["effective"] == "native"
    assert eng.fields()["reason"].startswith("loop_disagrees_by_")
    before = experts.calls
    run(experts, layer, case)
    assert experts.calls == before + 1


def test_nan_is_no_agreement(engine: Make) -> None:
    case = make(1, 2, 8, 64, 32, 2)
    eng = engine("loop")
    experts, _ = eng.load(case)
    experts.wrong_by = float("nan")
    eng.switch.announce()
    assert eng.fields()["reason"] == "loop_disagrees_by_nan"


def test_no_layer_at_all(engine: Make) -> None:
    eng = engine("loop")
    eng.switch.announce()
    assert eng.fields()["effective"] == "native"
    assert eng.fields()["reason"] == "no_unquantized_experts"
    assert eng.fields()["layers"] == "0"


def test_a_limit_of_zero_switches_nothing(engine: Make) -> None:
    case = make(1, 1, 8, 64, 32, 2)
    eng = engine("loop", 0)
    experts, layer = eng.load(case)
    run(experts, layer, case)
    assert eng.fields()["reason"] == "max_tokens_is_0"
    assert experts.calls == 1


def test_an_expert_map_at_run_time_goes_to_the_engine(engine: Make) -> None:
    case = make(1, 1, 8, 64, 32, 2)
    eng = engine("loop")
    experts, layer = eng.load(case)
    eng.switch.announce()
    before = experts.calls
    run(experts, layer, case, expert_map=torch.arange(8))
    assert experts.calls == before + 1


@pytest.mark.parametrize("name", OURS)
def test_router_weights_that_went_on_the_input_are_not_applied_twice(
    engine: Make, name: str
) -> None:
    case = make(1, 2, 8, 64, 32, 1, renormalized=False, dtype=torch.float32)
    eng = engine(name)
    experts, layer = eng.load(case)
    eng.switch.announce()
    out = run(experts, layer, case, apply_router_weight_on_input=True)
    ones = torch.ones_like(case.weights)
    torch.testing.assert_close(
        out.double(),
        reference(case.hidden, case.w13, case.w2, ones, case.ids),
        rtol=1e-4,
        atol=1e-5,
    )


def test_native_keeps_no_weights_and_counts_steps(engine: Make) -> None:
    case = make(1, 2, 8, 64, 32, 2)
    eng = engine("native")
    experts, layer = eng.load(case)
    second, layer2 = eng.load(case)
    assert all(known.rows is None for known in eng.switch._loaded)
    for _ in range(3):
        run(experts, layer, case)
        run(second, layer2, case)  # the second layer of the same step is not a step
    assert "tiny=0 native=3 tokens=6 by_tokens={2:3}" in eng.switch.steps.line()
    assert eng.fields()["effective"] == "native"


def test_dry_runs_are_not_counted(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_serving", lambda: lambda: False)
    case = make(1, 2, 8, 64, 32, 2)
    eng = engine("loop")
    run(*eng.load(case), case)
    assert "tiny=0 native=0" in eng.switch.steps.line()


def policy_for(case: Case, choices: dict[int, str]) -> Policy:
    experts, width, inner = case.w2.shape
    key = Key(
        cpu_device(), torch.get_num_threads(), "bf16", experts, width, inner, case.ids.shape[1]
    )
    return Policy({key: choices})


def test_auto_follows_the_policy(engine: Make) -> None:
    case = make(1, 6, 8, 64, 32, 2)
    eng = engine("auto", 8, policy_for(case, {1: "direct", 2: "bmm", 4: "native", 8: "loop"}))
    experts, layer = eng.load(case)
    for tokens in (1, 2, 3, 6):
        step(experts, layer, case.hidden[:tokens], case.weights[:tokens], case.ids[:tokens])
    assert eng.fields()["effective"] == "auto"
    assert eng.fields()["uses"] == "1:direct,2:bmm,5-8:loop"
    assert "tiny=3 native=1" in eng.switch.steps.line()
    assert "by_path={bmm:1,direct:1,loop:1}" in eng.switch.steps.line()


def test_auto_without_a_measurement_of_this_shape_says_so(engine: Make) -> None:
    case = make(1, 2, 8, 64, 32, 2)
    eng = engine("auto", 4, Policy({}))
    eng.load(case)
    eng.switch.announce()
    assert eng.fields()["effective"] == "native"
    assert eng.fields()["reason"] == "policy_has_no_such_device"
    assert (eng.fields()["wants"], eng.fields()["has"]) == (cpu_device(), "nothing")


@pytest.mark.parametrize(
    ("changed", "part", "has"),
    [
        ({"hidden": 65}, "shape", "8x65x32x2"),
        ({"dtype": "fp32"}, "dtype", "fp32"),
        ({"threads": 99}, "threads", "99"),
        ({"device": "cpu:other"}, "device", "cpu:other"),
    ],
)
def test_what_the_policy_lacks_is_named(
    engine: Make, changed: dict[str, Any], part: str, has: str
) -> None:
    case = make(1, 2, 8, 64, 32, 2)
    (key,) = policy_for(case, {1: "loop"}).entries
    eng = engine("auto", 4, Policy({replace(key, **changed): {1: "loop"}}))
    eng.load(case)
    eng.switch.announce()
    assert eng.fields()["reason"] == f"policy_has_no_such_{part}"
    assert eng.fields()["has"] == has
    assert eng.fields()["effective"] == "native"


@pytest.mark.skipif(not library_path().exists(), reason="needs the compiled kernel")
def test_the_compiled_kernel_reads_rows_where_it_does_not_know_the_packing(engine: Make) -> None:
    case = make(1, 2, 64, 256, 128, 2)
    eng = engine("compiled")
    eng.load(case)
    eng.switch.announce()
    assert eng.fields()["effective"] == "compiled"
    assert eng.fields()["kept_mib"] == "12"


def test_huge_pages_are_reported(engine: Make) -> None:
    case = make(1, 2, 64, 256, 128, 2)
    eng = engine("native", moe_huge_pages=True)
    eng.load(case)
    eng.switch.announce()
    assert int(eng.fields()["huge_mib"]) in range(13)
