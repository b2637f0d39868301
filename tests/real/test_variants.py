"""The kernels inside the real engine: they answer as vLLM's own do, and say that they ran.

Starting the engine is what costs here, and importing it is most of that. So one program answers for all variants, a
fork for each, and only what is about servers and ranks starts one. The study over variants is in ``test_study.py``.
"""

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

from tuner.build import Engine, build_engine, load_recipe, make_model, measure_kernels
from tuner.fidelity.steplog import read_steps
from tuner.launch import ports, shm
from tuner.load.endpoint import Endpoint
from tuner.quality.agreement import agree
from tuner.quality.answers import PROMPTS, Sheet, ask_alone, ask_crowd, non_finite, sheet_from_json
from tuner.quality.asking import Asker
from tuner.spec.quality import Answers
from tuner.verdict import Evidence, ExitFacts, Verdict, judge, read_log
from tuner.verdict.backends import marker_fields

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900), pytest.mark.xdist_group("engines")]

LONG = "a long text " * 40
VARIANTS = ("compiled", "direct", "loop", "tokenwise", "bmm", "grouped", "auto")
FLAGS = (
    *("--served-model-name", "llm", "--max-model-len", "8192", "--max-num-seqs", "4"),
    *("--max-num-batched-tokens", "2048", "--enforce-eager", "--enable-prompt-tokens-details"),
)
TWO_RANKS = ("--tensor-parallel-size", "2")
ONE_PROCESS = ("--distributed-executor-backend", "uni")


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
    if TWO_RANKS[0] not in flags:
        flags, env = (*flags, *ONE_PROCESS), {**env, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
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


def serve(engine: Engine, folder: Path, *flags: str, model: Path, **env: str) -> Served:
    """What an engine answers to the oracle's prompts."""
    log = folder / "engine.log"

    async def ask(endpoint: Endpoint) -> Sheet:
        asker = Asker(endpoint, long_text=LONG)
        try:
            alone = await ask_alone(asker, 16, logprobs=True)
            return {**alone, **await ask_crowd(asker, 16, logprobs=True)}
        finally:
            await asker.close()

    with running(engine, model, flags, env, log) as endpoint:
        answers = asyncio.run(ask(endpoint))
        time.sleep(1)  # the counts of the last burst are printed when it is over
    return Served(answers, log.read_text(errors="replace"))


@pytest.fixture(scope="module")
def engine() -> Engine:
    return build_engine(load_recipe("cpu"))


@dataclass(frozen=True)
class Answered:
    """What the engine answered and printed in each job, and what was measured for ``auto``."""

    served: dict[str, Served]
    policy: dict[str, str]


@pytest.fixture(scope="module")
def answered(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Answered:
    """All variants, and another family of models by vLLM's own kernel and by ours."""
    folder = tmp_path_factory.mktemp("answers")
    policy = folder / "policy.json"
    hybrid = make_model(engine, "tiny_hybrid")
    other = qwen3_moe(engine, folder / "qwen3-moe")
    measure_kernels(engine, hybrid, policy=policy, options=["--tokens", "1,4", "--rounds", "5"])
    asked = {name: {"ENGINEX_MOE_TINY_IMPL": name} for name in VARIANTS}
    asked["auto"]["ENGINEX_MOE_POLICY"] = str(policy)
    watched = {"ENGINEX_MOE_TINY_IMPL": "compiled", "ENGINEX_NUMERIC_WATCH": "1"}
    jobs = {
        "native": (hybrid, {}),
        **{name: (hybrid, env) for name, env in asked.items()},
        "other native": (other, {}),
        "other compiled": (other, watched),
    }
    served = _answer(engine, folder, jobs)
    (entry,) = json.loads(policy.read_text())["entries"]
    return Answered(served, entry["by_tokens"])


def _answer(
    engine: Engine, folder: Path, jobs: dict[str, tuple[Path, dict[str, str]]]
) -> dict[str, Served]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME")}
    given = {
        "prompts": {"long": f"{LONG}\nSum it up.", **PROMPTS},
        "tokens": 16,
        "jobs": {
            name: {
                "model": str(model),
                "env": env,
                "log": str(folder / f"{name}.log"),
                "out": str(folder / f"{name}.json"),
            }
            for name, (model, env) in jobs.items()
        },
    }
    one = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}
    done = subprocess.run(
        [str(engine.python), str(Path(__file__).parents[1] / "engine" / "answers.py")],
        input=json.dumps(given),
        env={**keep, **dict(engine.env), **one},
        capture_output=True,
        text=True,
        check=False,
    )
    logs = {name: (folder / f"{name}.log").read_text(errors="replace") for name in jobs}
    assert done.returncode == 0, done.stderr[-2000:] + "".join(log[-1000:] for log in logs.values())
    return {
        name: Served(sheet_from_json(json.loads((folder / f"{name}.json").read_text())), log)
        for name, log in logs.items()
    }


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_answers_as_vllm_does_and_leaves_its_marker(
    answered: Answered, variant: str
) -> None:
    native, found = answered.served["native"], answered.served[variant]
    assert "[enginex]" not in native.log
    assert len(native.answers) == 2 * (1 + len(PROMPTS))
    assert agree(found.answers, native.answers, Answers()).problem is None
    (marker,) = [m for m in found.markers("moe") if "effective" in m]
    assert marker["effective"] == variant
    counted = found.markers("moe steps")[-1]
    ours = variant != "auto" or set(answered.policy.values()) != {"native"}
    assert (int(counted["tiny"]) > 0) == ours


def test_auto_follows_what_was_measured_on_this_machine(answered: Answered) -> None:
    (marker,) = [m for m in answered.served["auto"].markers("moe") if "effective" in m]
    # One token, and two to four, which take what was measured for four; native needs no entry.
    uses = {"1": answered.policy["1"], "2-4": answered.policy["4"]}
    if answered.policy["1"] == answered.policy["4"]:
        uses = {"1-4": answered.policy["1"]}
    said = ",".join(f"{tokens}:{name}" for tokens, name in uses.items() if name != "native")
    assert marker["uses"] == (said or "nothing")


def test_a_policy_of_another_machine_is_refused(engine: Engine, tmp_path: Path) -> None:
    key = {"threads": 2, "dtype": "bf16", "experts": 64, "hidden": 256, "inter": 64, "topk": 8}
    entry = {**key, "device": "cpu:another", "by_tokens": {"1": "compiled"}}
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"format": "enginex-policy/1", "entries": [entry]}))
    asked = {"ENGINEX_MOE_TINY_IMPL": "auto", "ENGINEX_MOE_POLICY": str(policy)}
    keep = {name: os.environ[name] for name in ("PATH", "HOME")}
    done = subprocess.run(
        [*engine.server, "--model", str(make_model(engine, "tiny_hybrid"))],
        env={**keep, **dict(engine.env), **asked},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert f"{policy} was measured on cpu:another and this is cpu:" in done.stdout
    said = read_log(done.stdout.splitlines(keepends=True))
    judgement = judge(Evidence(log=said, exit=ExitFacts.from_code(done.returncode)))
    assert judgement.verdict is Verdict.FLAGS_REJECTED


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


def test_another_family_of_models(answered: Answered) -> None:
    plain, found = answered.served["other native"], answered.served["other compiled"]
    assert agree(found.answers, plain.answers, Answers()).problem is None
    (marker,) = [m for m in found.markers("moe") if "effective" in m]
    assert (marker["effective"], marker["experts"]) == ("compiled", "16")
    assert "scope=layers layers=4" in found.log
    assert "numeric found=" not in found.log


def test_two_ranks_with_all_instruments_on(
    engine: Engine, answered: Answered, tmp_path: Path
) -> None:
    records = tmp_path / "steps.jsonl"
    found = serve(
        engine,
        tmp_path,
        *TWO_RANKS,
        model=make_model(engine, "tiny_hybrid"),
        ENGINEX_MOE_TINY_IMPL="compiled",
        ENGINEX_NUMERIC_WATCH="1",
        ENGINEX_PROFILE_DECODE="1",
        ENGINEX_PROFILE_EVERY="20",
        ENGINEX_STEP_RECORDS=str(records),
        VLLM_CPU_OMP_THREADS_BIND="0|1",
    )
    assert non_finite(found.answers) is None
    assert agree(found.answers, answered.served["native"].answers, Answers()).problem is None
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
