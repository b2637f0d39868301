"""Every probe: what it asks, how long it takes, and what its failure means unless declared otherwise."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tuner.quality.asking import Asker
from tuner.quality.probes import cache, chat, image, limits, refusals, sampling, stress, structure
from tuner.spec.quality import Need, ProbeName, Quality


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing that is asked of an engine.

    Attributes:
        name: Its name in search spaces.
        ask: Asks it; raises :class:`tuner.quality.asking.ProbeFailed` where the engine does not do it.
        need: What a failure means where the search space does not say.
        suite: The smallest suite that it belongs to.
        quiet: Whether it is asked while nothing else is.
        trained: Whether only a trained model can do it; off for a model with random weights.
    """

    name: ProbeName
    ask: Callable[[Asker], Awaitable[None]]
    need: Need = "required"
    suite: Literal["core", "full"] = "core"
    quiet: bool = False
    trained: bool = False

    @property
    def about(self) -> str:
        """What it asks, in a sentence."""
        return (inspect.getdoc(self.ask) or "").partition("\n")[0]


PROBES: tuple[Probe, ...] = (
    Probe("chat", chat.chat),
    Probe("system", chat.system),
    Probe("multi_system", chat.multi_system, "as_baseline"),
    Probe("multi_turn", chat.multi_turn),
    Probe("languages", chat.languages),
    Probe("max_tokens_1", limits.max_tokens_1),
    Probe("max_tokens_64", limits.max_tokens_64, suite="full"),
    Probe("max_tokens_none", limits.max_tokens_none),
    Probe("max_tokens_large", limits.max_tokens_large, "as_baseline"),
    Probe("stop", limits.stop),
    Probe("n_2", sampling.n_2, "as_baseline"),
    Probe("seed", sampling.seed, "as_baseline", quiet=True),
    Probe("parameters", sampling.parameters, "as_baseline"),
    Probe("json_object", structure.json_object, "as_baseline"),
    Probe("json_schema", structure.json_schema, "as_baseline"),
    Probe("tool_messages", chat.tool_messages, "as_baseline"),
    Probe("tool_choice", structure.tool_choice, "as_baseline", trained=True),
    Probe("tool_call", structure.tool_call, "as_baseline", trained=True),
    Probe("reasoning", chat.reasoning, "as_baseline", trained=True),
    Probe("image", image.image, "as_baseline", trained=True),
    Probe("cache", cache.cache, "as_baseline", quiet=True),
    Probe("bad_body", refusals.bad_body),
    Probe("bad_messages", refusals.bad_messages),
    Probe("bad_parameters", refusals.bad_parameters),
    Probe("too_long", refusals.too_long, "as_baseline"),
    Probe("long_context", stress.long_context, suite="full", quiet=True),
    Probe("worst_case", stress.worst_case, suite="full", quiet=True),
)
"""Every probe, in the order in which they are told."""


def chosen(quality: Quality, *, trained: bool, caching: bool) -> Mapping[Probe, Need]:
    """The probes that an engine is asked, each with what its failure means.

    Args:
        quality: What the search space declares.
        trained: Whether the model's weights are more than random.
        caching: Whether the deployment may keep prompts in a prefix cache.
    """
    if quality.suite == "off":
        return {}
    found: dict[Probe, Need] = {}
    for probe in PROBES:
        need = quality.probes.get(probe.name) or _default(probe, quality, trained=trained)
        if need != "off" and (caching or probe.name != "cache"):
            found[probe] = need
    return found


def _default(probe: Probe, quality: Quality, *, trained: bool) -> Need:
    left_out = probe.suite == "full" and quality.suite != "full"
    return "off" if left_out or (probe.trained and not trained) else probe.need
