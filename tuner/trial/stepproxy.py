"""What the step simulator says of a trial, by the steps that earlier trials of the study logged.

It has something to say only where the engines log their steps
(``--enable-logging-iteration-details``), and only of settings that it has seen.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.fidelity.asked import Asked, LengthsUnknown, asked
from tuner.fidelity.blocks import PoolTooSmall
from tuner.fidelity.evidence import Predicted
from tuner.fidelity.simulate import Scheduler
from tuner.fidelity.simulator import Abstention, Candidate, from_steps
from tuner.fidelity.steplog import steps_of_log
from tuner.fidelity.steptime import Setting, StepRecord
from tuner.launch.base import LOG_NAME
from tuner.spec.deployment import Deployment
from tuner.store.rows import TrialRow
from tuner.trial.context import Study

STEP_FLAG = "--enable-logging-iteration-details"
VERSION = "steps-1"
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

    def speaks(self, trial: TrialRow) -> bool:
        """Whether a trial's engine logs its steps."""
        return STEP_FLAG in Deployment.from_json(trial.deployment).argv

    def learn(self, trial: TrialRow) -> None:
        """Learn the steps of a trial that was measured."""
        engine = self._engine(trial)
        if engine is None:
            return
        steps = steps_of_log(engine.lines, pool_tokens=engine.pool_tokens)
        if not steps:
            return
        candidate = self._candidate(trial, engine)
        if isinstance(candidate, str):
            return
        starts = self._steps.setdefault(candidate.setting, [])
        starts.append(steps)
        del starts[:-_RECENT]
        for name, value in candidate.other.items():
            self._axes[name] = self._axes.get(name, frozenset()) | {value}

    def predict(self, trial: TrialRow) -> Predicted | str:
        """What a trial should come to, by those that were learnt; else why nothing can be said."""
        engine = self._engine(trial)
        if engine is None:
            return "its log does not say the size of the KV pool"
        candidate = self._candidate(trial, engine)
        if isinstance(candidate, str):
            return candidate
        load = self._load()
        if isinstance(load, str):
            return load
        records = {s: [r for start in starts for r in start] for s, starts in self._steps.items()}
        try:
            found = from_steps(records, self._axes).predict(
                candidate, load, weights=self.study.weights
            )
        except (PoolTooSmall, ValueError, RuntimeError) as error:
            return str(error)  # a fit that fails says nothing
        if isinstance(found, Abstention):
            return found.why
        setting = candidate.setting
        layout = f"{setting.layout} {setting.variant}".strip()
        return (
            Predicted(layout=layout, value=found.score) if found.score > 0 else "it came to nothing"
        )

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
        return _Engine(lines, int(pool), block)

    def _candidate(self, trial: TrialRow, engine: _Engine) -> Candidate | str:
        deployment = Deployment.from_json(trial.deployment)
        argv, env = deployment.argv, dict(deployment.env)
        seqs, tokens = _number(argv, _SEQS), _number(argv, _TOKENS)
        if seqs is None or tokens is None:
            return f"{_SEQS if seqs is None else _TOKENS} is left to the engine"
        unit = _number(argv, "--block-size") or (16 if self.study.hardware.devices else 128)
        block = engine.block or unit
        ranks, eager = _number(argv, _RANKS) or 1, _EAGER in argv
        variant = " ".join(f"{k}={v}" for k, v in sorted(env.items()) if k.startswith("ENGINEX_"))
        return Candidate(
            Setting(f"tp{ranks}{' eager' if eager else ''}", variant, ranks, eager),
            Scheduler(
                seqs,
                tokens,
                blocks=engine.pool_tokens // block,
                block_tokens=block,
                prefix_caching="--no-enable-prefix-caching" not in argv,
                chunked_prefill="--no-enable-chunked-prefill" not in argv,
                state_tokens=0 if engine.block is None else unit,
            ),
            self._other(trial),
        )

    def _other(self, trial: TrialRow) -> dict[str, str]:
        """All that is varied and that the simulator has no model of."""
        found = {}
        for name, value in trial.params.items():
            target = self.study.space.parameters[name]
            kernel = target.env is not None and target.env.startswith("ENGINEX_")
            if target.flag not in _MODELLED and not kernel:
                found[name] = str(value)
        return found

    def _load(self) -> Asked | str:
        plans = [plan for prepared in self.study.plans.values() for plan in prepared.levels]
        if len(plans) != 1:
            return "it knows loads of one plan"
        try:
            return asked(plans[0], verbatim=False)
        except LengthsUnknown as error:
            return str(error)


@dataclass(frozen=True, slots=True)
class _Engine:
    """What an engine's own log says of it.

    Attributes:
        lines: The log.
        pool_tokens: Tokens that the KV pool holds.
        block: Tokens of a block, where a hybrid model made it larger.
    """

    lines: Sequence[str]
    pool_tokens: int
    block: int | None


def _number(argv: Sequence[str], flag: str) -> int | None:
    """The number behind a flag; None where it is not given."""
    for name, value in itertools.pairwise(argv):
        if name == flag and value.isdigit():
            return int(value)
    return None
