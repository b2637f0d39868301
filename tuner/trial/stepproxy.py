"""What the step simulator says of a trial, by the steps that earlier trials of the study logged.

It has something to say only where the engines log their steps
(``--enable-logging-iteration-details``), and only of settings that it has seen.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.fidelity.asked import Asked, LengthsUnknown, asked
from tuner.fidelity.blocks import PoolTooSmall
from tuner.fidelity.evidence import Predicted
from tuner.fidelity.simulate import Scheduler
from tuner.fidelity.simulator import Abstention, Candidate, Simulator
from tuner.fidelity.steplog import steps_of_log
from tuner.fidelity.steptime import Setting, StepModel, StepRecord, fit_steps
from tuner.launch.base import LOG_NAME
from tuner.load.plan import Plan
from tuner.spec import Point
from tuner.spec.deployment import Deployment
from tuner.spec.flags import STEP_FLAG
from tuner.store.rows import TrialRow
from tuner.trial.context import Study
from tuner.trial.lengths import keep, recalled
from tuner.trial.placing import on_devices

VERSION = "steps-2"
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

    @property
    def ready(self) -> bool:
        """Whether it knows what is asked: a new study does not before its first engine is up."""
        return self._load() is not None

    def speaks(self, deployment: Deployment) -> bool:
        """Whether a deployment's engine logs its steps."""
        return STEP_FLAG in deployment.argv

    def learn(self, trial: TrialRow) -> None:
        """Learn the steps of a trial that was measured."""
        self._load()  # an engine was up: what is asked is known now, and is kept
        engine = self._engine(trial)
        if engine is None:
            return
        steps = steps_of_log(engine.lines, pool_tokens=engine.pool.tokens)
        if not steps:
            return
        deployment = Deployment.from_json(trial.deployment)
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
        setting, other = _setting(deployment), self._other(params)
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

    def _candidate(self, params: Point, deployment: Deployment, pool: _Pool) -> Candidate | str:
        argv = deployment.argv
        seqs, tokens = _number(argv, _SEQS), _number(argv, _TOKENS)
        if seqs is None or tokens is None:
            return f"{_SEQS if seqs is None else _TOKENS} is left to the engine"
        unit = _number(argv, "--block-size") or (16 if self._on_devices(deployment) else 128)
        block = pool.block or unit
        return Candidate(
            _setting(deployment),
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


def _setting(deployment: Deployment) -> Setting:
    argv, env = deployment.argv, dict(deployment.env)
    ranks, eager = _number(argv, _RANKS) or 1, _EAGER in argv
    variant = " ".join(f"{k}={v}" for k, v in sorted(env.items()) if k.startswith("ENGINEX_"))
    return Setting(f"tp{ranks}{' eager' if eager else ''}", variant, ranks, eager)


def _kind(setting: Setting, other: Mapping[str, str]) -> _Kind:
    return setting.layout, tuple(sorted(other.items()))


def _number(argv: Sequence[str], flag: str) -> int | None:
    """The number behind a flag; None where it is not given."""
    for name, value in itertools.pairwise(argv):
        if name == flag and value.isdigit():
            return int(value)
    return None
