"""A search space that was read and found sound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.spec.document import Engine, Export, Search, SpaceDocument
from tuner.spec.identity import differences, spelled_out
from tuner.spec.levels import Level
from tuner.spec.limits import Budget, HardwareOverride, Memory
from tuner.spec.outcomes import declared, outcomes
from tuner.spec.parameter import Computed, Group, Parameter, Rule
from tuner.spec.quality import Quality
from tuner.spec.score import Score
from tuner.spec.settings import EngineChoice, ModelChoice, engine_model, model_choice, recipe_name
from tuner.spec.strict_yaml import Document
from tuner.spec.uses import UsedFile
from tuner.spec.values import Choice, PointValue, key, label
from tuner.spec.workload import Workload


@dataclass(frozen=True, slots=True)
class Load:
    """A workload under its name.

    Attributes:
        name: Its name; ``main`` where a study has one.
        workload: What it asks.
    """

    name: str
    workload: Workload

    @property
    def weight(self) -> float:
        """Its part in the score where a study has several."""
        return self.workload.weight


@dataclass(frozen=True, slots=True, eq=False)
class SearchSpace:
    """What may be varied, what is fixed, what is asked, and what may be spent.

    Two spaces are never equal as objects, even of one file; compare their fingerprints.

    Attributes:
        document: Everything that the file declares.
        source: The file's name and the place of each value in it, for messages.
        text: The file's content, from which the same space can be read again.
        files: The files that are used as values, by their path as written.
        meaning: What the space means, as plain JSON.
        fingerprint: SHA-256 of its meaning.
    """

    document: SpaceDocument
    source: Document
    text: str
    files: Mapping[str, UsedFile]
    meaning: Mapping[str, Any]
    fingerprint: str

    @property
    def study(self) -> str:
        """The study's name."""
        return self.document.study

    @property
    def seed(self) -> int:
        """Seed of the search."""
        return self.document.seed

    @property
    def engine(self) -> Engine:
        """What is started, as far as it is not searched."""
        return self.document.engine

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """What is searched, by name."""
        return self.document.parameters

    @property
    def groups(self) -> Mapping[str, Group]:
        """Parameters that move together, by the group's name."""
        return self.document.groups

    @property
    def computed(self) -> Mapping[str, Computed]:
        """Values that follow from others, by name."""
        return self.document.computed

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Combinations that are not to be tried."""
        return self.document.rules

    @property
    def search(self) -> Search:
        """How points are chosen."""
        return self.document.search

    @property
    def budget(self) -> Budget:
        """When the search ends."""
        return self.document.budget

    @property
    def loads(self) -> tuple[Load, ...]:
        """The workloads with their names, in the order of the file."""
        return tuple(Load(name, workload) for name, workload in self.document.loads.items())

    @property
    def levels(self) -> tuple[Level, ...]:
        """Cheaper levels of the question, the cheapest first; the real one is not among them."""
        return self.document.levels

    def loads_on(self, level: Level) -> tuple[Load, ...]:
        """The workloads that are asked on a cheaper level."""
        whole = self.document.loads
        return tuple(Load(name, change.of(whole[name])) for name, change in level.changes.items())

    @property
    def quality(self) -> Quality:
        """What the engine must be able to do before it is measured."""
        return self.document.quality

    @property
    def score(self) -> Score:
        """How the load's records become one number, and what must hold."""
        return self.document.score

    @property
    def memory(self) -> Memory:
        """Memory limits."""
        return self.document.memory

    @property
    def hardware(self) -> HardwareOverride:
        """What is assumed in place of what is found on the machine."""
        return self.document.hardware

    @property
    def export(self) -> Export:
        """The files that the winner becomes; the study's name is filled in."""
        export = self.document.export
        return export.model_copy(update={"dir": export.dir.replace("{study}", self.study)})

    @property
    def recipes(self) -> tuple[str, ...]:
        """All recipes that its points need, as deployments name them."""
        texts = self._settings("recipe")
        if not self._always("recipe"):
            texts = (self.engine.recipe, *texts)
        return tuple(dict.fromkeys(recipe_name(text, self.source) for text in texts))

    @property
    def engines(self) -> tuple[EngineChoice, ...]:
        """All engines that its points need: recipes, each with every image that is chosen."""
        images: tuple[str | None, ...] = self._settings("image")
        if not self._always("image"):
            images = (None, *images)
        chosen = tuple(dict.fromkeys(images))
        return tuple(EngineChoice(recipe, image) for recipe in self.recipes for image in chosen)

    @property
    def models(self) -> tuple[ModelChoice, ...]:
        """All models that its points serve."""
        found = [model_choice(text, self.source) for text in self._settings("model")]
        if not self._always("model"):
            found = [engine_model(self.engine.model, self.source), *found]
        return tuple({model.name: model for model in found}.values())

    def members(self, axis: str) -> tuple[str, ...]:
        """The parameters of an axis: a group's members, or the one parameter."""
        group = self.groups.get(axis)
        return group.members if group is not None else (axis,)

    def choice(self, name: str, value: PointValue) -> Choice:
        """The value that stands behind a parameter's value in a point."""
        for choice in declared(self.document, name):
            if key(label(choice)) == key(value):
                return choice
        if isinstance(value, list | dict):
            raise KeyError(name)
        return value

    def _settings(self, setting: str) -> tuple[str, ...]:
        """The texts that choose a part of the engine, of parameters and of computed values."""
        targets = {**self.parameters, **self.computed}
        names = [name for name, target in targets.items() if target.setting == setting]
        return tuple(text for name in names for text in outcomes(self.document, name))

    def _always(self, setting: str) -> bool:
        """Whether every point chooses this part of the engine."""
        return any(
            parameter.setting == setting and self._condition(name) is None
            for name, parameter in self.parameters.items()
        )

    def _condition(self, name: str) -> str | None:
        own = self.parameters[name].when
        groups = [group.when for group in self.groups.values() if name in group.members]
        return next(iter(groups), own)


def difference(old: SearchSpace, new: SearchSpace) -> list[str]:
    """How one search space differs from another in meaning, a line for each place."""
    return differences(spelled_out(old.document, old.files), spelled_out(new.document, new.files))
