from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, cast

import pytest

from tests.memory.checkpoints import facts
from tests.trial.factory import DEPLOYMENT
from tuner.build import Engine, load_recipe
from tuner.build.engine import Fingerprint
from tuner.build.recipe import Container
from tuner.memory.bound import Capacity
from tuner.memory.estimate import Start, expect, fit, observed_peak
from tuner.spec.deployment import Deployment
from tuner.spec.limits import Amount
from tuner.store.ledger import Ledger
from tuner.store.rows import Event, Origin, TrialRow
from tuner.store.stages import Stage
from tuner.telemetry.samples import DeviceInfo
from tuner.trial.context import Study
from tuner.trial.margins import Margins

GIB = 2**30


def made_by(recipe: str, vllm: str | None) -> Engine:
    """The engine of a recipe that comes with tuner, as its builder would leave it."""
    spec = load_recipe(recipe).spec
    made = Fingerprint("3.10.12", vllm, None, (), "a processor", ())
    env = tuple(sorted(spec.env.items()))
    return Engine(recipe, "d" * 64, "image", Path("/"), Path("python3"), spec.server, env, made,
                  container=spec.container, kv_cache=spec.kv_cache)  # fmt: skip


def margins(devices: tuple[object, ...] = (), gpus: Literal["none", "all"] = "none") -> Margins:
    host = Amount(share=0.5)
    engine = replace(made_by("existing", vllm=None), container=Container(gpus=gpus))
    study = SimpleNamespace(
        hardware=SimpleNamespace(devices=devices, memory_total=20 * GIB, worker_memory=None),
        space=SimpleNamespace(
            memory=SimpleNamespace(host=host), engine=SimpleNamespace(launch="process")
        ),
        engines={"cpu": engine},
        device_env={},
    )
    return Margins(cast(Study, study))


MINE = Deployment.from_json(DEPLOYMENT)
GPU = DeviceInfo(0, "GPU-0", None, "Card", 32 * GIB)


class Counting(Ledger):
    """A ledger that counts the trials and the events that are read of it."""

    read: ClassVar[list[int]] = [0, 0]

    def trials(self, *given: Any, **more: Any) -> list[TrialRow]:
        found = super().trials(*given, **more)
        self.read[0] += len(found)
        return found

    def events(self, *given: Any, **more: Any) -> list[Event]:
        found = super().events(*given, **more)
        self.read[1] += len(found)
        return found


def started(ledger: Ledger, study: int, blocks: int, model: str = "m") -> TrialRow:
    """A trial whose engine came up with so many blocks, and that is not told yet."""
    trial = ledger.plan(
        study,
        origin=Origin.SEARCH,
        params={},
        assignment={},
        deployment={**DEPLOYMENT, "model": model},
    )
    for stage in (Stage.STARTING, Stage.READY, Stage.PROBED, Stage.WARMED):
        trial = ledger.advance(trial, stage)
    ledger.note(study, "readback", {"gpu_blocks": blocks}, trial.number)
    telemetry = {"devices": [], **seen(2.0)}
    trial = ledger.advance(trial, Stage.MEASURED, metrics={"telemetry": telemetry})
    return ledger.advance(ledger.advance(trial, Stage.STOPPING), Stage.VERIFIED)


def test_starts_of_told_trials_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen_blocks: list[list[int | None]] = []

    def fit(_: object, starts: list[Start]) -> None:
        seen_blocks.append([start.blocks for start in starts])

    monkeypatch.setattr("tuner.trial.margins.fit", fit)
    monkeypatch.setattr("tuner.trial.margins.expect", lambda *_: None)
    monkeypatch.setattr("tuner.trial.margins.read_model", lambda _: None)
    with Counting(tmp_path / "state", write=True) as ledger:
        row = ledger.create_study(name="one", fingerprint="f", space="", origin="")
        found = margins()
        found.study.__dict__.update(ledger=ledger, row=row, models={"m": tmp_path}, model_facts={})
        mine = MINE
        assert found.violation(mine) is None
        for number in range(12):
            trial = started(ledger, row.id, number, "m" if number % 3 else "other")
            ledger.read[:] = [0, 0]
            found.violation(mine)
            assert ledger.read == [1 + bool(number), 1]  # this one, and the one told since
            ledger.advance(trial, Stage.TOLD)
        assert seen_blocks[-1] == [n for n in range(12) if n % 3]
        fresh = Margins(found.study)
        fresh.violation(mine)
        assert seen_blocks[-1] == seen_blocks[-2]
        # One that is started again is not what it was: only what was told is kept.
        again = started(ledger, row.id, 100)
        found.violation(mine)
        ledger.advance(again, Stage.PLANNED)
        found.violation(mine)
        assert seen_blocks[-2][-1] == 100
        assert 100 not in seen_blocks[-1]


def seen(high: float | None, name: str = "tree_pss") -> dict[str, Any]:
    found: dict[str, Any] = {"tree_pss": None, "tree_rss": None}
    return found | {name: None if high is None else {"high": high * GIB}}


@pytest.mark.parametrize(
    ("held", "violation"), [(0, -1.0), (2.5, -0.75), (9.9, -0.01), (10, 0.0), (12, 0.0)]
)
def test_what_was_held_is_a_share_of_the_limit(held: float, violation: float) -> None:
    assert margins().measured(seen(held), MINE) == pytest.approx(violation)


def test_resident_pages_serve_where_shares_were_not_read() -> None:
    assert margins().measured(seen(5, "tree_rss"), MINE) == pytest.approx(-0.5)


def test_nothing_is_measured_where_nobody_looked_or_devices_are_what_counts() -> None:
    assert margins().measured(seen(None), MINE) is None
    assert margins((GPU,), "all").measured(seen(5), MINE) is None


def test_an_engine_of_the_host_is_one_also_where_there_are_devices() -> None:
    found = margins((GPU,))
    asked = Deployment.from_json({**DEPLOYMENT, "env": {"VLLM_CPU_KVCACHE_SPACE": "4"}})
    request = found.request(asked)
    assert (request.device, request.kv_bytes) == ("cpu", 4 * GIB)
    assert found.capacity(asked).device_bytes is None
    assert found.measured(seen(5), asked) == pytest.approx(-0.5)
    assert margins((GPU,), "all").request(asked).device == "gpu"


def test_the_capacity_is_that_of_the_devices_that_the_engine_sees() -> None:
    small = DeviceInfo(1, "GPU-1", None, "Card", 8 * GIB)
    found = margins((GPU, small), "all")
    assert found.capacity(MINE).device_bytes == 8 * GIB
    hidden = Deployment.from_json({**DEPLOYMENT, "env": {"CUDA_VISIBLE_DEVICES": "0"}})
    assert found.capacity(hidden).device_bytes == 32 * GIB


TARGET = facts("qwen36_35b_a3b")
CARD = 34_057_748_480
FLAGS = (
    "--tensor-parallel-size", "4", "--dtype", "half", "--enable-chunked-prefill",
    "--enable-prefix-caching", "--limit-mm-per-prompt", "image=5", "--max-num-batched-tokens",
)  # fmt: skip
SHORT = (*FLAGS, "8192", "--max-num-seqs", "1", "--max-model-len")
LONG = (*SHORT, "262144", "--gpu-memory-utilization", "0.9")
# Blocks and GiB of weights that the engine printed on four BI-V100.
PRINTED: dict[tuple[str, ...], tuple[int, float]] = {
    LONG: (16_878, 16.7280),
    (*SHORT, "100000", "--gpu-memory-utilization", "0.9"): (16_884, 16.7280),
    (*FLAGS, "4096", "--max-num-seqs", "2", "--max-model-len", "256000",
     "--gpu-memory-utilization", "0.95"): (19_259, 17.3529),
}  # fmt: skip


def asked_of(engine: Engine, argv: tuple[str, ...]) -> Any:
    found = margins(devices=("GPU-0",))
    deployment = Deployment.from_json({**DEPLOYMENT, "recipe": engine.recipe, "argv": list(argv)})
    found.study.__dict__["engines"] = {deployment.engine: engine}
    return found.request(deployment)


@pytest.mark.parametrize("argv", PRINTED)
def test_the_first_target_is_foreseen_from_its_recipe_and_its_flags(argv: tuple[str, ...]) -> None:
    """Nothing but what a study has: the recipe, the flags, and the figures of one real start."""
    engine = made_by("bi100", vllm="0.6.3")
    blocks, weights = PRINTED[LONG]
    start = Start(asked_of(engine, LONG), CARD, weights * GIB, blocks=blocks)
    peak = observed_peak(TARGET, start)
    assert peak is not None
    assert 1.1 < peak / GIB < 1.7
    blocks, weights = PRINTED[argv]
    found = expect(TARGET, asked_of(engine, argv), fit(TARGET, [start]), Capacity(CARD),
                   weights_bytes=weights * GIB)  # fmt: skip
    assert found is not None
    assert found.blocks == pytest.approx(blocks, rel=0.03)
    assert abs(found.relative) < 0.35


def test_an_engine_that_says_nothing_of_its_cache_is_known_by_its_version() -> None:
    old = asked_of(made_by("existing", vllm="0.6.3.post1"), LONG)
    assert (old.generation, old.all_layers_cached) == ("v0", False)
    assert asked_of(made_by("existing", vllm="0.32.0"), LONG).generation == "v1"
    assert asked_of(made_by("existing", vllm=None), LONG).generation == "v1"
