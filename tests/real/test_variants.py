"""The kernels inside the real engine: they answer as vLLM's own do, say that they ran, and the fastest wins.

A start of the engine is what costs here. So the study over the variants is the run in which each one's answers and
marker are looked at, and all engines but the one with two ranks are single processes, which start in half the time.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.real.test_study import told
from tuner.build import Engine, build_engine, load_recipe, make_model, measure_kernels
from tuner.fidelity.steplog import read_steps
from tuner.launch import ports, shm
from tuner.load.endpoint import Endpoint
from tuner.quality.agreement import agree
from tuner.quality.answers import Sheet, ask_alone, ask_crowd, non_finite, sheet_from_json
from tuner.quality.asking import Asker
from tuner.spec.quality import Answers
from tuner.store.ledger import Ledger
from tuner.trial.entry import study_folder
from tuner.trial.probing import REFERENCE
from tuner.verdict import Evidence, ExitFacts, Verdict, judge, read_log
from tuner.verdict.backends import marker_fields

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900), pytest.mark.xdist_group("engines")]

SPACE = Path(__file__).parents[1] / "data" / "spaces" / "real_variants.yaml"
STUDY = "real-variants"
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
        asker = Asker(endpoint, long_text="a long text " * 40)
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
class Studied:
    """The study over the variants, when it is over.

    Attributes:
        native: The answers of vLLM's own kernel, which all the others were held against.
        policy: What was measured for `auto`: the variant by tokens, for the one shape.
    """

    state: Path
    native: Sheet
    policy: dict[str, str]

    def trial(self, variant: str) -> dict[str, Any]:
        """The trial of the search that ran a variant, with all that is known of it."""
        (number,) = [
            t["trial"]
            for t in told(self.state, "trials", STUDY)
            if t["params"] == {"moe": variant} and t["origin"] != "repeat"
        ]
        found: dict[str, Any] = told(self.state, "show", STUDY, str(number))
        return found

    def log(self, variant: str) -> str:
        with Ledger(self.state, write=False) as ledger:
            folder = study_folder(ledger, STUDY)
        number = self.trial(variant)["trial"]
        return (folder / f"trials/{number:04}/attempt-1/engine.log").read_text(errors="replace")


@pytest.fixture(scope="module")
def studied(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Studied:
    folder = tmp_path_factory.mktemp("variants")
    policy = folder / "policy.json"
    model = make_model(engine, "tiny_hybrid")
    measure_kernels(engine, model, policy=policy, options=["--tokens", "1,4", "--rounds", "5"])
    space = folder / "space.yaml"
    space.write_text(SPACE.read_text().replace("{policy}", str(policy)))
    state = folder / "state"
    words = [sys.executable, "-m", "tuner", "--state", str(state), "run", "--foreground"]
    root = {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [*words, str(space)],
        cwd=folder,
        env={**os.environ, **root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with Ledger(state, write=False) as ledger:
        (said,) = ledger.events(ledger.study(STUDY).id, kinds=(REFERENCE,))
    (entry,) = json.loads(policy.read_text())["entries"]
    return Studied(state, sheet_from_json(said.data["sheet"]), entry["by_tokens"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_answers_as_vllm_does_and_leaves_its_marker(
    studied: Studied, variant: str
) -> None:
    assert studied.trial("native")["origin"] == "baseline"
    assert "[enginex]" not in studied.log("native")
    trial = studied.trial(variant)
    assert (trial["verdict"], trial["feasible"]) == ("healthy", True)
    answers = trial["metrics"]["quality"]["answers"]
    assert answers["compared"] == len(studied.native) > 0
    assert answers["problem"] is None
    log = Served({}, studied.log(variant))
    (marker,) = [m for m in log.markers("moe") if "effective" in m]
    assert marker["effective"] == variant
    counted = log.markers("moe steps")[-1]
    ours = variant != "auto" or set(studied.policy.values()) != {"native"}
    assert (int(counted["tiny"]) > 0) == ours


def test_auto_follows_what_was_measured_on_this_machine(studied: Studied) -> None:
    (marker,) = [m for m in Served({}, studied.log("auto")).markers("moe") if "effective" in m]
    # One token, and two to four, which take what was measured for four; native needs no entry.
    uses = {"1": studied.policy["1"], "2-4": studied.policy["4"]}
    if studied.policy["1"] == studied.policy["4"]:
        uses = {"1-4": studied.policy["1"]}
    said = ",".join(f"{tokens}:{name}" for tokens, name in uses.items() if name != "native")
    assert marker["uses"] == (said or "nothing")


def test_the_study_ends_with_the_fastest(studied: Studied) -> None:
    """The slow ones need about twice as long for a step here; those that may win are within its noise."""
    decision = told(studied.state, "status", STUDY)["decision"]
    scores = {name: studied.trial(name)["score"] for name in ("native", *VARIANTS)}
    (winner,) = [n for n in scores if studied.trial(n)["trial"] == decision["winner"]]
    assert winner in {"native", "compiled", "auto"}
    best = max(scores, key=lambda name: scores[name])
    assert best in {"native", "compiled", "auto"}, scores
    exported = (studied.state.parent / "export" / "computility-run.yaml").read_text()
    assert ("ENGINEX_MOE_TINY_IMPL" in exported) == (winner != "native")


def test_a_policy_of_another_machine_is_refused(
    engine: Engine, studied: Studied, tmp_path: Path
) -> None:
    policy = json.loads((studied.state.parent / "policy.json").read_text())
    policy["entries"][0]["device"] = "cpu:another"
    other, log = tmp_path / "policy.json", tmp_path / "engine.log"
    other.write_text(json.dumps(policy))
    asked = {"ENGINEX_MOE_TINY_IMPL": "auto", "ENGINEX_MOE_POLICY": str(other)}
    model = make_model(engine, "tiny_hybrid")
    with (
        pytest.raises(AssertionError, match=r"was measured on cpu:another and this is cpu:"),
        running(engine, model, (), asked, log),
    ):
        pass
    said = read_log(log.read_text().splitlines(keepends=True))
    judgement = judge(Evidence(log=said, exit=ExitFacts(status=2)))
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


def test_two_ranks_with_all_instruments_on(
    engine: Engine, studied: Studied, tmp_path: Path
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
    assert agree(found.answers, studied.native, Answers()).problem is None
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
