"""The kernels inside the real engine: they answer as vLLM's own do, and say that they ran."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from tuner.build import Engine, build_engine, load_recipe, make_model
from tuner.fidelity.steplog import read_steps
from tuner.launch import ports, shm
from tuner.load.endpoint import Endpoint
from tuner.quality.agreement import agree
from tuner.quality.answers import Sheet, ask_alone, ask_crowd, non_finite
from tuner.quality.asking import Asker
from tuner.spec.quality import Answers
from tuner.verdict import Evidence, Verdict, judge, read_log
from tuner.verdict.backends import marker_fields

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900), pytest.mark.xdist_group("engines")]

FLAGS = (
    *("--served-model-name", "llm", "--max-model-len", "8192", "--max-num-seqs", "4"),
    *("--max-num-batched-tokens", "2048", "--enforce-eager", "--enable-prompt-tokens-details"),
)
TWO_RANKS = ("--tensor-parallel-size", "2")


@pytest.fixture
def own_folders() -> None:
    """The user's cache is wanted here: it holds the built engine."""


@dataclass(frozen=True)
class Served:
    """What an engine answered and what it printed."""

    answers: Sheet
    log: str

    def markers(self, topic: str) -> list[dict[str, str]]:
        lines = [line for line in self.log.splitlines() if f"[enginex] {topic} " in line]
        return [marker_fields(line) for line in lines]


@contextmanager
def running(
    engine: Engine, model: Path, flags: tuple[str, ...], env: dict[str, str], log: Path
) -> Iterator[Endpoint]:
    """The engine on a model, until the block ends."""
    port = ports.free_port()
    argv = [*engine.server, "--model", str(model), "--host", "127.0.0.1", "--port", str(port)]
    before = shm.snapshot()
    keep = {name: os.environ[name] for name in ("PATH", "HOME")}
    env = {**keep, **dict(engine.env), "VLLM_CPU_KVCACHE_SPACE": "1", **env}
    with log.open("wb") as out:
        server = subprocess.Popen(
            [*argv, *FLAGS, *flags],
            env=env,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait(server, port, log)
            yield Endpoint("llm", port=port)
        finally:
            started = psutil.Process(server.pid).children(recursive=True)
            server.send_signal(signal.SIGTERM)
            server.wait(30)
            _, alive = psutil.wait_procs(started, timeout=15)
            assert not alive
            shm.sweep(before)  # vLLM leaves the memory that its ranks share; tuner sweeps it, too


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text(errors="replace")[-3000:]
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    pytest.fail("the engine never served")


def serve(
    engine: Engine, folder: Path, *flags: str, model: Path | None = None, **env: str
) -> Served:
    """What an engine answers to the oracle's prompts; it serves the hybrid model unless told otherwise."""
    log = folder / "engine.log"

    async def ask(endpoint: Endpoint) -> Sheet:
        asker = Asker(endpoint, long_text="a long text " * 40)
        try:
            alone = await ask_alone(asker, 16, logprobs=True)
            return {**alone, **await ask_crowd(asker, 16, logprobs=True)}
        finally:
            await asker.close()

    served = model or make_model(engine, "tiny_hybrid")
    with running(engine, served, flags, env, log) as endpoint:
        answers = asyncio.run(ask(endpoint))
        time.sleep(1)  # the counts of the last burst are printed when it is over
    return Served(answers, log.read_text(errors="replace"))


@pytest.fixture(scope="module")
def engine() -> Engine:
    return build_engine(load_recipe("cpu"))


@pytest.fixture(scope="module")
def native(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return serve(engine, tmp_path_factory.mktemp("native"))


@pytest.mark.parametrize("variant", ["compiled", "direct", "loop", "tokenwise", "bmm", "grouped"])
def test_a_variant_answers_as_vllm_does_and_leaves_its_marker(
    engine: Engine, native: Served, variant: str, tmp_path: Path
) -> None:
    assert "[enginex]" not in native.log
    found = serve(engine, tmp_path, ENGINEX_MOE_TINY_IMPL=variant)
    agreement = agree(found.answers, native.answers, Answers())
    assert agreement.problem is None
    (marker,) = [m for m in found.markers("moe") if "effective" in m]
    assert marker["effective"] == variant
    counted = found.markers("moe steps")[-1]
    assert int(counted["tiny"]) > 0


def qwen3_moe(engine: Engine, out: Path, *words: str) -> Path:
    maker = Path(__file__).parents[1] / "engine" / "tiny_moe.py"
    hybrid = make_model(engine, "tiny_hybrid")
    subprocess.run([str(engine.python), str(maker), str(hybrid), str(out), *words], check=True)
    return out


def test_a_model_that_computes_nan_is_found_out(engine: Engine, tmp_path: Path) -> None:
    model, log = qwen3_moe(engine, tmp_path / "model", "broken"), tmp_path / "engine.log"
    with running(engine, model, (), {"ENGINEX_NUMERIC_WATCH": "1"}, log) as endpoint:
        body = {"model": "llm", "prompt": "Hello", "max_tokens": 4}
        url = f"{endpoint.url}/v1/completions"
        httpx.post(url, json=body, timeout=60, trust_env=False)
        time.sleep(1)
        text = log.read_text(errors="replace")
        assert "numeric found=non-finite where=model.layers.1.self_attn nan=" in text
        judgement = judge(Evidence(log=read_log(text.splitlines(keepends=True)), running=True))
    assert judgement.verdict is Verdict.NON_FINITE


def test_another_family_of_models(engine: Engine, tmp_path: Path) -> None:
    model = qwen3_moe(engine, tmp_path / "qwen3-moe")
    plain = serve(engine, tmp_path, model=model)
    found = serve(
        engine,
        tmp_path,
        model=model,
        ENGINEX_MOE_TINY_IMPL="compiled",
        ENGINEX_NUMERIC_WATCH="1",
    )
    assert agree(found.answers, plain.answers, Answers()).problem is None
    (marker,) = [m for m in found.markers("moe") if "effective" in m]
    assert (marker["effective"], marker["experts"]) == ("compiled", "16")
    assert "scope=layers layers=4" in found.log
    assert "numeric found=" not in found.log


def test_two_ranks_with_all_instruments_on(engine: Engine, native: Served, tmp_path: Path) -> None:
    records = tmp_path / "steps.jsonl"
    found = serve(
        engine,
        tmp_path,
        *TWO_RANKS,
        ENGINEX_MOE_TINY_IMPL="compiled",
        ENGINEX_NUMERIC_WATCH="1",
        ENGINEX_PROFILE_DECODE="1",
        ENGINEX_PROFILE_EVERY="20",
        ENGINEX_STEP_RECORDS=str(records),
        VLLM_CPU_OMP_THREADS_BIND="0|1",
    )
    assert non_finite(found.answers) is None
    assert agree(found.answers, native.answers, Answers()).problem is None
    markers = [m for m in found.markers("moe") if "effective" in m]
    assert {m["rank"]: m["effective"] for m in markers} == {"0": "compiled", "1": "compiled"}
    assert len({m["pid"] for m in markers}) == 2
    assert "numeric watch=on" in found.log
    assert "numeric found=" not in found.log
    (*_, line) = [m["stages"] for m in found.markers("profile") if "stages" in m]
    stages = json.loads(line)["decode"]["stages"]
    assert {"attention", "gdn", "routed_experts", "all_reduce", "sampling"} <= set(stages)
    steps = read_steps(records)
    assert len({json.loads(text)["pid"] for text in records.read_text().splitlines()}) == 1
    assert any(step.batch.decode_seqs for step in steps)
    assert any(step.batch.prefill_tokens for step in steps)
