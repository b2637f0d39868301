"""What the step simulator says of a trial, by the steps that earlier trials of the study logged.

It has something to say only where the engines log their steps
(``--enable-logging-iteration-details``) or write records of them (``ENGINEX_STEP_RECORDS``), and only
of settings that it has seen. Records come first: they hold what was attended to and which experts
were touched, which a log does not say.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tuner.errors import ModelUnreadable, UserError
from tuner.fidelity.asked import Asked, LengthsUnknown, asked
from tuner.fidelity.blocks import PoolTooSmall
from tuner.fidelity.evidence import Predicted
from tuner.fidelity.simulate import Scheduler
from tuner.fidelity.simulator import Abstention, Candidate, Simulator
from tuner.fidelity.steplog import read_steps, steps_of_log
from tuner.fidelity.steptime import Routing, Setting, StepModel, StepRecord, fit_steps
from tuner.launch.base import LOG_NAME
from tuner.load.plan import Plan
from tuner.memory.config import read_config
from tuner.spec import Point
from tuner.spec.deployment import Deployment
from tuner.spec.flags import STEP_FLAG, STEP_RECORDS, own_records
from tuner.store.rows import TrialRow
from tuner.trial.context import Study
from tuner.trial.lengths import keep, recalled
from tuner.trial.placing import on_devices

VERSION = "steps-3"
"""The proxy's name and version: another one has its trust to earn anew."""

_SEQS, _TOKENS, _RANKS = "--max-num-seqs", "--max-num-batched-tokens", "--tensor-parallel-size"
_EAGER = "--enforce-eager"
_MODELLED = frozenset({_SEQS, _TOKENS, _RANKS, _EAGER, STEP_FLAG})
_BLOCK = re.compile(r"Setting attention block size to (\d+) tokens")
_RECENT = 2
"""Starts of one layout and variant whose steps are fitted: the newest."""


@dataclass(slots=True)
class StepProxy:
    """Learns the steps of trials, and predicts others.

    Attributes:
        study: The study and all that it has at hand.
    """

    study: Study
    _steps: dict[Setting, list[list[StepRecord]]] = field(default_factory=dict)
    _axes: dict[str, frozenset[str]] = field(default_factory=dict)
    _pools: dict[_Kind, _Pool] = field(default_factory=dict)
    _models: dict[Setting, StepModel] = field(default_factory=dict)
    _told: dict[_Case, Predicted | str] = field(default_factory=dict)
    _asked: tuple[Plan | None, Asked | str] | None = None
    _routings: dict[str, Routing] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Whether it knows what is asked: a new study does not before its first engine is up."""
        return self._load() is not None

    def speaks(self, deployment: Deployment) -> bool:
        """Whether a deployment's engine logs its steps, or writes records of them."""
        return STEP_FLAG in deployment.argv or _records(deployment) is not None

    def learn(self, trial: TrialRow) -> None:
        """Learn the steps of a trial that was measured."""
        self._load()  # an engine was up: what is asked is known now, and is kept
        engine = self._engine(trial)
        if engine is None:
            return
        deployment = Deployment.from_json(trial.deployment)
        steps = self._recorded(trial, deployment)
        steps = steps or steps_of_log(engine.lines, pool_tokens=engine.pool.tokens)
        if not steps:
            return
        candidate = self._candidate(trial.params, deployment, engine.pool)
        if isinstance(candidate, str):
            return
        self._pools[_kind(candidate.setting, candidate.other)] = engine.pool
        self._models.pop(candidate.setting, None)
        # What it says of other settings stays as it is, unless it said that it could not know.
        self._told = {
            case: said
            for case, said in self._told.items()
            if case[0] != candidate.setting and not isinstance(said, str)
        }
        starts = self._steps.setdefault(candidate.setting, [])
        starts.append(steps)
        del starts[:-_RECENT]
        for name, value in candidate.other.items():
            self._axes[name] = self._axes.get(name, frozenset()) | {value}

    def predict(self, params: Point, deployment: Deployment) -> Predicted | str:
        """What a point should come to, by trials that were learnt; else why nothing can be said.

        Nothing of the point's own start is used, so it is the same before that and after it. Its KV
        pool is taken to be that of the newest start of its layout and of its other values.
        """
        setting, other = self._setting(deployment), self._other(params)
        pool = self._pools.get(_kind(setting, other))
        if pool is None:
            shown = " ".join([setting.layout, *(f"{k}={v}" for k, v in sorted(other.items()))])
            return f"the KV pool of {shown} was never seen"
        candidate = self._candidate(params, deployment, pool)
        if isinstance(candidate, str):
            return candidate
        load = self._load()
        if not isinstance(load, Asked):
            return load or "what is asked is not known before an engine is up"
        case = (setting, candidate.scheduler, tuple(sorted(other.items())))
        if case not in self._told:
            self._told[case] = self._simulated(candidate, load)
        return self._told[case]

    def _simulated(self, candidate: Candidate, load: Asked) -> Predicted | str:
        try:
            study = self.study
            found = self._fit().predict(
                candidate, load, weights=study.weights, objective=study.objective
            )
        except (PoolTooSmall, ValueError, RuntimeError) as error:
            return str(error)  # a fit that fails says nothing
        if isinstance(found, Abstention):
            return found.why
        layout = f"{candidate.setting.layout} {candidate.setting.variant}".strip()
        return (
            Predicted(layout=layout, value=found.score) if found.score > 0 else "it came to nothing"
        )

    def _fit(self) -> Simulator:
        """The simulator by all that was learnt; what was learnt of one setting is fitted alone."""
        for setting, starts in self._steps.items():
            if setting not in self._models:
                self._models[setting] = fit_steps(setting, list(itertools.chain(*starts)))
        return Simulator(list(self._models.values()), self._axes)

    # --- a trial as the simulator sees it --------------------------------------------------------

    def _engine(self, trial: TrialRow) -> _Engine | None:
        study = self.study
        said = [
            event.data
            for event in study.ledger.events(study.row.id, kinds=("readback",))
            if event.number == trial.number
        ]
        pool = said[-1].get("kv_tokens") if said else None
        log = study.trial_folder(trial.number, trial.attempt) / LOG_NAME
        if not pool or not log.is_file():
            return None
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        block = next((int(m[1]) for line in lines if (m := _BLOCK.search(line))), None)
        return _Engine(lines, _Pool(int(pool), block))

    def _on_devices(self, deployment: Deployment) -> bool:
        study = self.study
        return on_devices(study.engines[deployment.engine]) and bool(study.hardware.devices)

    def _recorded(self, trial: TrialRow, deployment: Deployment) -> list[StepRecord]:
        """The steps that a trial's engine wrote down; none where it wrote none that can be read."""
        file = _records(deployment)
        path = None if file is None else self.study.trial_folder(trial.number, trial.attempt) / file
        if path is None or not path.is_file():
            return []
        try:
            return [record for record in read_steps(path) if record.batch.tokens]
        except UserError:
            return []  # the log is left

    def _setting(self, deployment: Deployment) -> Setting:
        argv, env = deployment.argv, dict(deployment.env)
        ranks, eager = _number(argv, _RANKS) or 1, _EAGER in argv
        kernels = sorted(k for k in env if k.startswith("ENGINEX_") and k != STEP_RECORDS)
        layout = [f"tp{ranks}", *(["eager"] if eager else [])]
        # Steps of two models or of two engines are never fitted together.
        layout += [deployment.model] if len(self.study.models) > 1 else []
        layout += [deployment.engine] if len(self.study.engines) > 1 else []
        return Setting(
            " ".join(layout),
            " ".join(f"{name}={env[name]}" for name in kernels),
            ranks,
            eager,
            self._routing(deployment.model),
        )

    def _routing(self, model: str) -> Routing:
        """How a model routes tokens, by its config; as a dense one where that does not say."""
        if model not in self._routings:
            found = Routing()
            with contextlib.suppress(ModelUnreadable):
                config = read_config(self.study.models.get(model, Path()))
                if config.experts and config.experts_a_token:
                    found = Routing(config.experts, config.experts_a_token)
            self._routings[model] = found
        return self._routings[model]

    def _candidate(self, params: Point, deployment: Deployment, pool: _Pool) -> Candidate | str:
        argv = deployment.argv
        seqs, tokens = _number(argv, _SEQS), _number(argv, _TOKENS)
        if seqs is None or tokens is None:
            return f"{_SEQS if seqs is None else _TOKENS} is left to the engine"
        unit = _number(argv, "--block-size") or (16 if self._on_devices(deployment) else 128)
        block = pool.block or unit
        return Candidate(
            self._setting(deployment),
            Scheduler(
                seqs,
                tokens,
                blocks=pool.tokens // block,
                block_tokens=block,
                prefix_caching="--no-enable-prefix-caching" not in argv,
                chunked_prefill="--no-enable-chunked-prefill" not in argv,
                state_tokens=0 if pool.block is None else unit,
            ),
            self._other(params),
        )

    def _other(self, params: Point) -> dict[str, str]:
        """All that is varied and that the simulator has no model of."""
        found = {}
        for name, value in params.items():
            target = self.study.space.parameters[name]
            kernel = target.env is not None and target.env.startswith("ENGINEX_")
            if target.flag not in _MODELLED and not kernel:
                found[name] = str(value)
        return found

    def _load(self) -> Asked | str | None:
        """What is asked; a sentence where it cannot be simulated, None while nobody knows it."""
        plans = [plan for prepared in self.study.plans.values() for plan in prepared.levels]
        if len(plans) > 1:
            return "it knows loads of one plan"
        if self._asked is None or (plans and self._asked[0] is not plans[0]):
            self._told.clear()
            self._asked = self._of_plan(plans[0]) if plans else self._of_before()
        return None if self._asked is None else self._asked[1]

    def _of_plan(self, plan: Plan) -> tuple[Plan, Asked | str]:
        try:
            found = asked(plan, verbatim=False)
        except LengthsUnknown as error:
            return plan, str(error)
        keep(self.study, found)
        return plan, found

    def _of_before(self) -> tuple[None, Asked] | None:
        found = recalled(self.study)
        return None if found is None else (None, found)


_Kind = tuple[str, tuple[tuple[str, str], ...]]
"""What a KV pool's size hangs on: the layout, and every value that the simulator has no model of."""
_Case = tuple[Setting, Scheduler, tuple[tuple[str, str], ...]]
"""All that a prediction hangs on, besides what was learnt of the setting."""


@dataclass(frozen=True, slots=True)
class _Pool:
    """The KV pool of a start.

    Attributes:
        tokens: Tokens that it holds.
        block: Tokens of a block, where a hybrid model made it larger.
    """

    tokens: int
    block: int | None


@dataclass(frozen=True, slots=True)
class _Engine:
    """What an engine's own log says of it: its lines, and its KV pool."""

    lines: Sequence[str]
    pool: _Pool


def _records(deployment: Deployment) -> PurePosixPath | None:
    """The file of its trial's folder to which a deployment's engine writes its steps."""
    return own_records(dict(deployment.env).get(STEP_RECORDS), deployment.launch)


def _kind(setting: Setting, other: Mapping[str, str]) -> _Kind:
    return setting.layout, tuple(sorted(other.items()))


def _number(argv: Sequence[str], flag: str) -> int | None:
    """The number behind a flag; None where it is not given."""
    for name, value in itertools.pairwise(argv):
        if name == flag and value.isdigit():
            return int(value)
    return None
