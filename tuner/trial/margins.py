"""How close to its memory a point comes: measured where it ran, expected from other starts where not.

The margin is a signed constraint for the sampler, and never a reason to refuse a point: only the
exact lower bound and the engine itself do that. Every start that came up calibrates the
expectation, so after one or two starts the sampler sees the slope towards the edge and not only the
points beyond it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tuner.memory.bound import Capacity
from tuner.memory.estimate import Start, expect, fit
from tuner.memory.floor import Floor, Least, judge_floor
from tuner.memory.model import ModelFacts, read_model
from tuner.memory.request import MemoryRequest, parse_request
from tuner.spec.deployment import Deployment
from tuner.store.rows import TrialRow
from tuner.store.stages import Stage
from tuner.trial.context import Study
from tuner.trial.environment import environment
from tuner.trial.placing import devices_of, on_devices

CONSTRAINT = "memory"


@dataclass(slots=True)
class Margins:
    """Memory margins of one study.

    Attributes:
        study: The study and all that it has at hand.
    """

    study: Study
    _over: int = -1  # up to this number all trials are told, and their starts are kept
    _heard: int = 0  # the last event that is known
    _said: dict[int, dict[str, Any]] = field(default_factory=dict)
    _kept: dict[tuple[str, str], list[Start]] = field(default_factory=dict)

    def request(self, deployment: Deployment) -> MemoryRequest:
        """What a deployment asks of memory."""
        engine = self.study.engines[deployment.engine]
        return parse_request(
            deployment.argv,
            environment(dict(engine.env), deployment),
            device="gpu" if self.on_devices(deployment) else "cpu",
            generation=engine.kv_cache.generation,
            version=engine.fingerprint.vllm,
            all_layers_cached=engine.kv_cache.layers == "all",
            cpu_flags=engine.fingerprint.cpu_features,
        )

    def on_devices(self, deployment: Deployment) -> bool:
        """Whether what a deployment's engine may run on is a device, and not the host."""
        return on_devices(self.study.engines[deployment.engine]) and bool(
            self.study.hardware.devices
        )

    def facts(self, deployment: Deployment) -> ModelFacts:
        """The served model, read once."""
        known = self.study.model_facts
        if deployment.model not in known:
            known[deployment.model] = read_model(self.study.models[deployment.model])
        return known[deployment.model]

    def capacity(self, deployment: Deployment) -> Capacity:
        """What the machine has for an engine; a container's limit is all the host memory that it sees."""
        hardware = self.study.hardware
        devices = [d.memory_total for d in devices_of(self.study, deployment) if d.memory_total]
        node, host = hardware.worker_memory, hardware.memory_total
        if self.study.space.engine.launch == "docker":
            host = min(host, self._limit)
            node = None if node is None else min(node, host)
        return Capacity(device_bytes=min(devices, default=None), node_bytes=node, host_bytes=host)

    def violation(self, deployment: Deployment) -> float | None:
        """The expected violation, in shares of the memory: at most 0 where it should fit.

        None while no start of this engine and model has come up.
        """
        starts = self._starts(deployment)
        if not starts:
            return None
        facts = self.facts(deployment)
        found = expect(
            facts, self.request(deployment), fit(facts, starts), self._allowed(deployment)
        )
        return None if found is None else _bounded(-found.relative)

    def measured(self, watched: dict[str, Any], deployment: Deployment) -> float | None:
        """The violation that was measured on the host, in shares of the memory: at most 0.

        None where the engine runs on devices, or where nobody saw what the processes held.

        Args:
            watched: What was seen while the load ran.
            deployment: What ran.
        """
        tree = watched["tree_pss"] or watched["tree_rss"]
        if self.on_devices(deployment) or tree is None:
            return None
        return min(0.0, _bounded(tree["high"] / self._limit - 1))

    def _allowed(self, deployment: Deployment) -> Capacity:
        """The capacity with the search space's own limit on the host."""
        found = self.capacity(deployment)
        return Capacity(found.device_bytes, found.node_bytes, self._limit)

    @property
    def _limit(self) -> int:
        return self.study.space.memory.host.of(self.study.hardware.memory_total)

    def _starts(self, deployment: Deployment) -> list[Start]:
        """Every start of the same engine and model that the ledger tells of.

        A trial that was told does not change any more, so it is read once.
        """
        wanted, fresh = (deployment.engine, deployment.model), []
        over = True
        for trial in self._fresh():
            found = self._start_of(trial)
            over = over and trial.stage is Stage.TOLD
            if over:
                self._over = trial.number
                self._said.pop(trial.number, None)
            if found is None:
                continue
            kind, start = found
            if over:
                self._kept.setdefault(kind, []).append(start)
            elif kind == wanted:
                fresh.append(start)
        return [*self._kept.get(wanted, ()), *fresh]

    def _fresh(self) -> list[TrialRow]:
        """The trials that are not known to be told, once what their engines said was heard."""
        ledger, study = self.study.ledger, self.study.row.id
        for event in ledger.events(study, after=self._heard, kinds=("readback",)):
            self._heard = event.id
            if event.number is not None:
                self._said[event.number] = event.data
        return ledger.trials(study, after=self._over)

    def _start_of(self, trial: TrialRow) -> tuple[tuple[str, str], Start] | None:
        """The engine and the model of a start and what it showed; None where it showed nothing."""
        said = self._said.get(trial.number)
        if trial.metrics is None or said is None:
            return None
        other = Deployment.from_json(trial.deployment)
        return (other.engine, other.model), self._start(trial, other, said)

    def _start(self, trial: TrialRow, deployment: Deployment, said: dict[str, Any]) -> Start:
        watched = (trial.metrics or {})["telemetry"]
        least = [d["least_free"] for d in watched["devices"] if d.get("least_free") is not None]
        tree = watched["tree_pss"] or watched["tree_rss"]
        return Start(
            request=self.request(deployment),
            device_bytes=self.capacity(deployment).device_bytes,
            weights_bytes=said.get("weights_bytes"),
            blocks=said.get("gpu_blocks"),
            kv_tokens=said.get("kv_tokens"),
            kv_bytes=said.get("kv_bytes"),
            free_bytes=min(least, default=None),
            used_bytes=None if tree is None else tree["high"],
        )

    def floor(self, watched: dict[str, Any]) -> Floor:
        """Whether every device kept the free memory that the search space asks for.

        Args:
            watched: What was seen of the trial's devices, from its start to the end of its load.
        """
        devices = [
            Least(d["key"], d.get("least_free"), d.get("memory_total")) for d in watched["devices"]
        ]
        totals = [d.total for d in devices if d.total]
        share = self.study.space.memory.device_floor
        smallest = min(totals, default=0)
        return judge_floor(devices, floor=share.of(smallest) / smallest if smallest else 0.0)


def _bounded(value: float) -> float:
    """A violation in [-1, 1], as all constraints are."""
    return max(-1.0, min(1.0, value))
