from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.trial.climbs import CHANCE, SPACE, study_of
from tuner.fidelity.evidence import Predicted
from tuner.fidelity.simulator import Candidate, Simulator
from tuner.fidelity.steptime import Routing
from tuner.launch.base import LOG_NAME
from tuner.load.plan import Closed, Message, Plan, Session, Turn
from tuner.load.workloads.declared import Prepared
from tuner.score.official import PUBLISHED
from tuner.spec import assignment, parse_space, resolve
from tuner.spec.deployment import Deployment
from tuner.spec.flags import STEP_FLAG, STEP_RECORDS
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin, TrialRow
from tuner.store.stages import Stage
from tuner.trial.context import Study
from tuner.trial.lengths import LENGTHS
from tuner.trial.stepproxy import StepProxy

ENGINE = "engine: {recipe: cpu, model: {make: tiny-hybrid}"
TURN = Turn((Message("user", "x" * 400),), 32, expect_prompt_tokens=400, expect_output_tokens=32)
LOAD = Plan("main", 0, tuple(Session((TURN,)) for _ in range(12)), Closed(8), request_timeout_s=10)


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    text = SPACE.format(seed=1, most=9, levels="", climb="", sampler=CHANCE).replace(
        ENGINE, f"{ENGINE}, flags: {{{STEP_FLAG}: true}}"
    )
    space = parse_space(text, tmp_path / "space.yaml")
    with Ledger(tmp_path, write=True) as ledger:
        found = study_of(ledger, space)
        found.weights = PUBLISHED
        found.plans = {"main": Prepared(LOAD, (LOAD,))}
        yield found


def steps(prompt_s: float, decode_s: float, most: int, prompts: int = 1) -> str:
    """A log of steps that take so long for each prompt token, and for each step of decoding."""
    line = (
        "INFO [loggers.py:203] Iteration({n}): {p} context requests, {t} context tokens, {d} generation "
        "requests, {d} generation tokens, iteration elapsed time: {ms:.2f} ms, CPU KV cache usage: {u:.1f}%"
    )
    lines = []
    for n in range(60):
        d, tokens = n % most + 1, (400 * (n % prompts + 1) if n % 3 == 0 else 0)
        ms = 1000 * (decode_s + 0.0002 * d + prompt_s * tokens)
        usage = 100 * (d * 416 + tokens) / 100_000
        lines.append(line.format(n=n, p=tokens // 400, t=tokens, d=d, ms=ms, u=usage))
    return "\n".join(lines) + "\n"


def ran(
    study: Study, log: str | None = "", *, pool: int | None = 100_000, **params: Any
) -> TrialRow:
    """A trial that was started, with what its engine wrote."""
    point = {"seqs": 1, "batch": 512, "moe": "loop", **params}
    trial = study.ledger.plan(
        study.row.id,
        origin=Origin.SEARCH,
        params=point,
        assignment=dict(assignment(study.space, point, study.context)),
        deployment=resolve(study.space, point, study.context).as_json(),
    )
    trial = study.ledger.advance(trial, Stage.STARTING)
    study.ledger.note(study.row.id, "readback", {"kv_tokens": pool}, trial.number)
    if log is not None:
        (study.trial_folder(trial.number, trial.attempt) / LOG_NAME).write_text(log)
    return trial


def say(proxy: StepProxy, study: Study, **params: Any) -> Predicted | str:
    """What the proxy says of a point that has no trial."""
    point = {"seqs": 1, "batch": 512, "moe": "loop", **params}
    return proxy.predict(point, resolve(study.space, point, study.context))


def test_it_orders_what_it_has_not_seen_by_steps_that_it_has(study: Study) -> None:
    proxy = StepProxy(study)
    seen = ran(study, steps(1e-4, 0.01, 8), seqs=8)
    assert proxy.speaks(Deployment.from_json(seen.deployment))
    proxy.learn(seen)
    said = [say(proxy, study, seqs=n) for n in (1, 2, 4, 8)]
    values = [s.value for s in said if isinstance(s, Predicted)]
    assert len(values) == 4
    # A step costs hardly more with more sequences in it, so more of them are better.
    assert values == sorted(values)
    assert values[3] > 2 * values[0]


def test_a_slower_start_that_is_newer_counts_more(study: Study) -> None:
    proxy = StepProxy(study)
    proxy.learn(ran(study, steps(1e-4, 0.01, 8), seqs=8))
    fast = say(proxy, study, seqs=4)
    for _ in range(2):
        proxy.learn(ran(study, steps(1e-4, 0.04, 8), seqs=8))
    slow = say(proxy, study, seqs=4)
    assert isinstance(fast, Predicted)
    assert isinstance(slow, Predicted)
    assert slow.value < 0.6 * fast.value


def test_what_was_learnt_of_one_variant_has_nothing_simulated_anew_of_another(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated: list[str] = []
    predict = Simulator.predict

    def counted(own: Simulator, candidate: Candidate, *more: Any, **named: Any) -> Any:
        simulated.append(candidate.setting.variant)
        return predict(own, candidate, *more, **named)

    monkeypatch.setattr(Simulator, "predict", counted)
    proxy = StepProxy(study)
    proxy.learn(ran(study, steps(1e-4, 0.01, 8), seqs=8))
    unknown = say(proxy, study, moe="native")
    proxy.learn(ran(study, steps(1e-4, 0.006, 8), seqs=8, moe="native"))
    before = [say(proxy, study, seqs=n, moe=moe) for n in (2, 4) for moe in ("loop", "native")]
    assert say(proxy, study, moe="native") != unknown  # what it could not know is asked again
    simulated.clear()
    proxy.learn(ran(study, steps(1e-4, 0.02, 8), seqs=8, moe="native"))
    after = [say(proxy, study, seqs=n, moe=moe) for n in (2, 4) for moe in ("loop", "native")]
    assert [a == b for a, b in zip(after, before, strict=True)] == [True, False, True, False]
    assert set(simulated) == {"ENGINEX_MOE_TINY_IMPL=native"}
    fresh = StepProxy(study)
    for trial in study.ledger.trials(study.row.id):
        fresh.learn(trial)
    assert [say(fresh, study, seqs=n, moe=m) for n in (2, 4) for m in ("loop", "native")] == after


def test_it_says_nothing_of_what_it_cannot_know(study: Study) -> None:
    proxy = StepProxy(study)
    assert "KV pool of tp1 was never seen" in str(say(proxy, study))
    proxy.learn(ran(study, steps(1e-4, 0.01, 8), pool=None, seqs=8))
    assert "KV pool of tp1 was never seen" in str(say(proxy, study))
    proxy.learn(ran(study, steps(1e-4, 0.01, 8), seqs=8))
    assert "never seen" in str(say(proxy, study, moe="native"))
    plans = study.plans
    study.plans = {"main": Prepared(LOAD, (LOAD, LOAD))}
    assert "one plan" in str(say(proxy, study, seqs=4))
    study.plans = plans
    assert isinstance(say(proxy, study, seqs=4), Predicted)
    proxy.learn(ran(study, steps(1e-4, 0.01, 8), pool=200, seqs=8))
    assert isinstance(say(proxy, study, seqs=4), str)  # not one request fits


def test_logs_without_steps_teach_nothing(study: Study) -> None:
    proxy = StepProxy(study)
    proxy.learn(ran(study, "INFO: nothing of that kind\n"))
    proxy.learn(ran(study, None))
    assert "never seen" in str(say(proxy, study))


def test_what_is_asked_is_known_again_when_a_study_goes_on(study: Study) -> None:
    before = StepProxy(study)
    trial = ran(study, steps(1e-4, 0.01, 8), seqs=8)
    before.learn(trial)
    said = say(before, study, seqs=4)
    study.plans = {}  # no engine of this session is up
    after = StepProxy(study)
    assert after.ready
    after.learn(trial)
    assert say(after, study, seqs=4) == said
    file = study.folder / LENGTHS
    kept = file.read_bytes()
    for damaged in (b"{", kept.replace(b'"of":"', b'"of":"another ')):
        file.write_bytes(damaged)
        fresh = StepProxy(study)
        assert not fresh.ready
        fresh.learn(trial)
        assert "not known before" in str(say(fresh, study, seqs=4))
    study.plans = {"main": Prepared(LOAD, (LOAD,))}  # its first engine is up
    assert fresh.ready
    assert say(fresh, study, seqs=4) == said
    assert file.read_bytes() == kept


def test_a_load_of_unknown_lengths_is_no_matter_of_time(study: Study) -> None:
    unknown = replace(LOAD, sessions=(Session((Turn((Message("user", "x"),)),)),))
    study.plans = {"main": Prepared(unknown, (unknown,))}
    proxy = StepProxy(study)
    proxy.learn(ran(study, steps(1e-4, 0.01, 8), seqs=8))
    assert proxy.ready
    assert "does not say how long it is" in str(say(proxy, study, seqs=4))
    assert not (study.folder / LENGTHS).exists()


RECORDS = "steps.jsonl"


def recording(study: Study, launch: str = "process", file: str = RECORDS) -> Study:
    """The same study whose engines write records of their steps, and log none."""
    more = f"launch: {launch}, env: {{{STEP_RECORDS}: {file}}}"
    text = study.space.text.replace(f"flags: {{{STEP_FLAG}: true}}", more)
    study.space = parse_space(text, study.folder / "space.yaml")
    return study


def recorded(decode_s: float, most: int = 8) -> str:
    """Records of steps, as enginex writes them, of a model with 64 experts of which a token takes 8."""
    lines = []
    for n in range(60):
        d, tokens = n % most + 1, 400 if n % 3 == 0 else 0
        touched = round(Routing(64, 8, 0.8).touched(d + tokens))
        lines.append(
            {
                "prefill_tokens": tokens, "prefill_work": 200.0 * tokens, "decode_seqs": d, "graph": "none",
                "kv_tokens": 416 * d, "experts": touched, "seconds": decode_s + 1e-4 * tokens + 1e-4 * touched,
            }
        )  # fmt: skip
    return "".join(json.dumps(line) + "\n" for line in lines)


def wrote(study: Study, text: str, log: str = "", **params: Any) -> TrialRow:
    trial = ran(study, log, **params)
    (study.trial_folder(trial.number, trial.attempt) / RECORDS).write_text(text)
    return trial


def test_it_learns_from_records_and_says_of_them_that_they_are_heard(study: Study) -> None:
    proxy = StepProxy(recording(study))
    trial = wrote(study, recorded(0.01), seqs=8)
    assert STEP_FLAG not in Deployment.from_json(trial.deployment).argv
    assert proxy.speaks(Deployment.from_json(trial.deployment))
    proxy.learn(trial)
    said = [say(proxy, study, seqs=n) for n in (1, 4, 8)]
    values = [s.value for s in said if isinstance(s, Predicted)]
    assert len(values) == 3
    assert values == sorted(values)
    assert STEP_RECORDS not in repr(said)  # who watches is no other kernel


def test_records_come_before_the_log(study: Study) -> None:
    recording(study)
    slow, fast = StepProxy(study), StepProxy(study)
    slow.learn(wrote(study, recorded(0.05), steps(1e-4, 0.01, 8), seqs=8))
    fast.learn(wrote(study, recorded(0.01), steps(1e-4, 0.05, 8), seqs=8))
    one, other = (say(proxy, study, seqs=4) for proxy in (slow, fast))
    assert isinstance(one, Predicted)
    assert isinstance(other, Predicted)
    assert other.value > 2 * one.value
    # What cannot be read leaves the log.
    torn = StepProxy(study)
    torn.learn(wrote(study, '{"prefill_tokens":', steps(1e-4, 0.01, 8), seqs=8))
    assert isinstance(say(torn, study, seqs=4), Predicted)


@pytest.mark.parametrize(
    ("launch", "file"), [("process", "/all.jsonl"), ("process", "../a"), ("docker", RECORDS)]
)
def test_a_file_that_is_not_the_trials_own_is_not_read(
    study: Study, launch: str, file: str
) -> None:
    proxy = StepProxy(recording(study, launch, file))
    trial = wrote(study, recorded(0.01), seqs=8)
    assert not proxy.speaks(Deployment.from_json(trial.deployment))
    proxy.learn(trial)
    assert "never seen" in str(say(proxy, study, seqs=4))


def test_tokens_are_routed_as_the_models_config_and_the_records_say(
    study: Study, tmp_path: Path
) -> None:
    recording(study)
    tiny = {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 64, "vocab_size": 99,
        "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "num_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 32, "intermediate_size": 64,
    }  # fmt: skip
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(tiny))
    trial = wrote(study, recorded(0.01), seqs=8)
    study.models = {Deployment.from_json(trial.deployment).model: tmp_path / "model"}
    proxy = StepProxy(study)
    proxy.learn(trial)
    (model,) = proxy._fit().models
    assert (model.routing.experts, model.routing.top_k) == (64, 8)
    assert model.routing.skew == pytest.approx(0.8, abs=0.15)
    assert model.seconds["experts"] > 0
    assert isinstance(say(proxy, study, seqs=4), Predicted)


def test_steps_of_two_models_or_engines_are_not_fitted_together(study: Study) -> None:
    proxy = StepProxy(study)
    trial = ran(study, steps(1e-4, 0.01, 8), seqs=8)
    own = Deployment.from_json(trial.deployment)
    others = [replace(own, model="/another"), replace(own, recipe="cuda")]
    alone = proxy._setting(own)
    assert [proxy._setting(other) for other in others] == [alone, alone]  # there is but one of each
    study.models = {**study.models, "/another": Path()}
    study.engines = {**study.engines, "cuda": next(iter(study.engines.values()))}
    found = {proxy._setting(one) for one in (own, *others)}
    assert len(found) == 3
    assert len({one.layout for one in found}) == 3
