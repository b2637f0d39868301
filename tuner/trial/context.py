"""What a study has at hand: its space, its engines, its machine, its ledger."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from tuner.build import Engine
from tuner.launch.base import Launcher
from tuner.load.workloads.declared import Prepared
from tuner.memory.model import ModelFacts
from tuner.score.gates import Gate
from tuner.score.objective import WEIGHTED, Objective
from tuner.score.official import Weights
from tuner.spec import Context, SearchSpace
from tuner.store.ledger import Ledger
from tuner.store.rows import StudyRow
from tuner.telemetry.hardware import Hardware
from tuner.telemetry.samples import DeviceSource
from tuner.trial.entry import attempt_folder
from tuner.trial.events import Voice
from tuner.trial.wishes import Wishes


@dataclass(slots=True)
class Study:
    """A study being worked on.

    Attributes:
        row: The study in the ledger.
        space: Its search space.
        context: What expressions of the space may name.
        folder: Its folder in the state folder.
        engines: Built engines, by the names that deployments give them.
        models: Model folders by the name that the space gives them.
        launcher: Starts its engines.
        hardware: The machine.
        devices: Where device samples come from.
        gates: What its trials are held against.
        weights: Weights of the weighted score.
        objective: What its trials are ranked by.
        voice: Tells those who watch.
        wishes: What is wished of it from outside.
        device_env: Variables that show its engines the devices that it may use.
        model_facts: What is known of each model, by its name, read when first asked for.
        plans: Loads by workload, built once an engine can count tokens.
        level_plans: The same of each cheaper level, by its name.
    """

    ledger: Ledger
    row: StudyRow
    space: SearchSpace
    context: Context
    folder: Path
    engines: dict[str, Engine]
    models: dict[str, Path]
    launcher: Launcher
    hardware: Hardware
    devices: DeviceSource
    gates: tuple[Gate, ...]
    weights: Weights
    voice: Voice
    objective: Objective = WEIGHTED
    wishes: Wishes = field(default_factory=Wishes)
    device_env: dict[str, str] = field(default_factory=dict)
    model_facts: dict[str, ModelFacts] = field(default_factory=dict)
    plans: dict[str, Prepared] = field(default_factory=dict)
    level_plans: dict[str, dict[str, Prepared]] = field(default_factory=dict)

    @property
    def cancelled(self) -> threading.Event:
        """Set when the study is to stop now."""
        return self.wishes.cancelled

    def trial_folder(self, number: int, attempt: int) -> Path:
        """The folder of one attempt of a trial; created when it is not there."""
        folder = attempt_folder(self.folder, number, attempt)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder
