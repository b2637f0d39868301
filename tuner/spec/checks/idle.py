"""What would do nothing: keys that are written and change nothing beside the others."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from pydantic import BaseModel

from tuner.spec.checks.names import asked_names
from tuner.spec.context import HARDWARE_FACTS
from tuner.spec.document import SpaceDocument
from tuner.spec.expression import parse
from tuner.spec.flags import STEP_FLAG, STEP_RECORDS, own_records
from tuner.spec.strict_yaml import Document, Place
from tuner.spec.targets import claims
from tuner.spec.values import json_text
from tuner.spec.workload import (
    BucketTokens,
    Conversations,
    Dataset,
    DecodeCurve,
    OfficialLike,
    Replay,
    Workload,
    highest,
)

Idle = tuple[Place, str, str]
"""Where it stands, what is wrong with it, and the mend."""

_SCHEDULER = ("--max-num-seqs", "--max-num-batched-tokens")
"""What decides which requests share a step; the step simulator needs to know both."""
FEWEST_TALKS = 10
"""Conversations of the smallest load that may be ended early: the first look is after eight, and not
when less than a fifth of the load is left."""


def check_idle(document: SpaceDocument, source: Document) -> None:
    """Refuse what is written and would do nothing: whoever wrote it believes that it does something.

    Raises:
        SpaceError: At the first such thing.
    """
    for place, said, mend in idle(document):
        raise source.error(place, said, mend)


def idle(document: SpaceDocument) -> Iterator[Idle]:
    """Everything in a search space that is written and would do nothing."""
    yield from _empty((), document)
    yield from _settings(document)
    yield from _repeats(document)
    yield from _early(document)
    yield from _proxy(document)
    yield from _hardware(document)
    yield from _bundles(document)
    yield from _rules(document)
    yield from _export(document)
    for name, load in document.loads.items():
        place: Place = ("workload",) if document.workloads is None else ("workloads", name)
        if len(document.loads) == 1 and _written(load, "weight"):
            yield (
                (*place, "weight"),
                "weight does nothing, as there is one workload",
                "leave it out",
            )
        yield from _workload(place, load)
    yield from _levels(document)


def _levels(document: SpaceDocument) -> Iterator[Idle]:
    """Loads of cheaper levels that are too small for the concurrency that they kept."""
    for index, level in enumerate(document.levels):
        for name, change in level.changes.items():
            place: Place = ("levels", index)
            for where, said, mend in _workload(place, change.of(document.loads[name])):
                if where[-1] == "concurrency":
                    yield place, f"{level.name}: {said}", mend


def _written(model: BaseModel, name: str) -> bool:
    return name in model.model_fields_set


def _empty(place: Place, value: Any) -> Iterator[Idle]:
    """Keys with nothing behind them, where nothing means the same as no key."""
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            here, inner = (*place, field.alias or name), getattr(value, name)
            if inner is None and field.default is None and _written(value, name):
                yield here, f"{here[-1]} is empty", "write its value, or delete it"
            yield from _empty(here, inner)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _empty((*place, key), inner)
    elif isinstance(value, tuple):
        for index, inner in enumerate(value):
            yield from _empty((*place, index), inner)


def _settings(document: SpaceDocument) -> Iterator[Idle]:
    search, deadlines = document.search, document.engine.deadlines
    if search.sampler == "grid" and _written(document, "seed"):
        yield ("seed",), "seed does nothing with sampler: grid", "leave it out"
    if search.finalists.count == 0 and _written(search.finalists, "rounds"):
        place: Place = ("search", "finalists", "rounds")
        yield place, "rounds does nothing, as there are no finalists", "leave it out"
    if _written(deadlines, "silence") and deadlines.silence > deadlines.start:
        place = ("engine", "deadlines", "silence")
        yield place, "silence does nothing: start ends first", "make it shorter than start"
    longest = max(load.request_timeout for load in document.loads.values())
    if _written(deadlines, "tokens") and deadlines.tokens > longest / 2:
        said = "tokens does nothing: half of request_timeout ends first"
        yield ("engine", "deadlines", "tokens"), said, "make it shorter, or request_timeout longer"


def _proxy(document: SpaceDocument) -> Iterator[Idle]:
    """A proxy that shall order the search and never hears of a step, or can never say anything."""
    place: Place = ("search", "proxy")
    if document.search.proxy != "on":
        return
    tuned = {claim.what for claim in claims(document)}
    flags = document.engine.flags
    loads = _loads(document)
    left = next((f for f in _SCHEDULER if flags.get(f) is None and f"flag {f}" not in tuned), None)
    heard = flags.get(STEP_FLAG) or f"flag {STEP_FLAG}" in tuned
    if not heard and not _records_steps(document):
        said = "proxy: on does nothing: the step simulator learns from steps that engines log or record"
        yield place, said, f"add engine: flags: {{{STEP_FLAG}: true}}"
    elif document.search.repeats.baseline == 1:
        said = "proxy: on does nothing: one start of the baseline shows no noise"
        yield place, said, "write repeats: {baseline: 2} or more"
    elif loads > 1:
        said = f"proxy: on does nothing: there are {loads} loads, and the step simulator knows one"
        yield place, said, "write proxy: shadow, or keep one workload of one concurrency"
    elif left is not None:
        said = f"proxy: on does nothing: {left} is left to the engine, so no step can be simulated"
        yield place, said, f"tune {left}, or fix it under engine: flags"


def _loads(document: SpaceDocument) -> int:
    """Loads that a trial is measured with: a decode curve has one a concurrency."""
    loads = document.loads.values()
    return sum(len(x.concurrencies) if isinstance(x, DecodeCurve) else 1 for x in loads)


def _repeats(document: SpaceDocument) -> Iterator[Idle]:
    """Repeats of trials that are never made; a key that says just so is no mistake."""
    search, repeats = document.search, document.search.repeats
    asked = {
        "each": repeats.each > 1,
        "starts": repeats.starts > 0,
        "worthwhile": True,
    }
    lacking: dict[str, str] = {}
    if search.finalists.count == 0:
        lacking = dict.fromkeys(asked, "there are no finalists to choose")
    elif repeats.baseline == 1:
        lacking = dict.fromkeys(asked, "one start of the baseline shows no noise")
    elif repeats.each == 1:
        lacking = {"starts": "each is 1"}
    elif repeats.starts == 0:
        lacking = {"each": "starts is 0"}
    for key, why in lacking.items():
        if asked[key] and _written(repeats, key):
            place: Place = ("search", "repeats", key)
            yield place, f"{key} does nothing, as {why}", "leave it out"


def _early(document: SpaceDocument) -> Iterator[Idle]:
    """A wish to end trials early that is never looked at; without the wish it is just left out."""
    search = document.search
    if not (search.stop_early and _written(search, "stop_early")):
        return
    levels = _loads(document)
    talks = None if levels > 1 else _talks(next(iter(document.loads.values())))
    why = None
    if document.score.figures != ("weighted",):
        why = "it compares the weighted score, and the objective is another"
    elif levels > 1:
        why = f"there are {levels} loads, and one of them does not decide"
    elif talks is not None and talks < FEWEST_TALKS:
        why = f"a load of {talks} is over before it is looked at: from {FEWEST_TALKS} on it is"
    elif search.repeats.baseline == 1:
        why = "one start of the baseline shows no noise"
    if why is not None:
        yield ("search", "stop_early"), f"stop_early does nothing: {why}", "leave it out"


def _talks(load: Workload) -> int | None:
    """Conversations of a load, a request alone being one; None where only its file knows."""
    match load:
        case Conversations() | Dataset():
            return load.conversations
        case DecodeCurve():
            return load.concurrencies[0] * load.rounds
        case _:
            return load.requests


def _hardware(document: SpaceDocument) -> Iterator[Idle]:
    asked = asked_names(document)
    for key, fact in HARDWARE_FACTS.items():
        if _written(document.hardware, key) and fact not in asked:
            yield (
                ("hardware", key),
                f"{key} does nothing: no expression asks for {fact}",
                "leave it out",
            )


def _bundles(document: SpaceDocument) -> Iterator[Idle]:
    for name, parameter in document.parameters.items():
        seen: dict[str, str] = {}
        for label, bundle in (parameter.bundle or {}).items():
            what = json_text(bundle.model_dump(mode="json"))
            if what in seen:
                place = ("parameters", name, "bundle", label)
                yield place, f"{label} sets just what {seen[what]} sets", "keep one of the two"
            seen[what] = label


def _rules(document: SpaceDocument) -> Iterator[Idle]:
    seen: dict[str, int] = {}
    for index, rule in enumerate(document.rules):
        expression = parse(str(rule.forbid or rule.require))
        what = f"{'forbid' if rule.forbid is not None else 'require'} {expression.canonical}"
        if what in seen:
            yield ("rules", index), f"this rule stands twice: {rule.text}", "keep one of the two"
        if not expression.names:
            yield ("rules", index), f"{rule.text} names nothing that could vary", "delete it"
        seen[what] = index


def _export(document: SpaceDocument) -> Iterator[Idle]:
    for name in document.export.env:
        for index, pattern in enumerate(document.export.drop_env):
            if fnmatchcase(name, pattern):
                place = ("export", "drop_env", index)
                yield (
                    place,
                    f"{pattern} drops {name}, which export: env sets",
                    "keep one of the two",
                )


def _workload(place: Place, load: Workload) -> Iterator[Idle]:
    match load:
        case Conversations():
            yield from _conversations(place, load)
        case OfficialLike():
            yield from _official(place, load)
            yield from _crowded(place, load.concurrency, load.requests, "requests")
        case Replay() if load.requests is not None and load.at_once is not None:
            yield from _crowded(place, load.at_once, load.requests, "requests")
        case Dataset():
            yield from _crowded(place, load.concurrency, load.conversations, "conversations")
            if load.output_tokens is None and _written(load, "scale"):
                said = "scale does nothing to texts that were recorded"
                yield (*place, "scale"), said, "leave it out, or add output_tokens"
    yield from _reuse(place, load)


def _conversations(place: Place, load: Conversations) -> Iterator[Idle]:
    if not load.tools and _written(load, "tools_in"):
        yield (*place, "tools_in"), "tools_in does nothing without tools", "add tools: 4"
    for key in ("growth", "think_time"):
        if highest(load.turns) == 1 and _written(load, key):
            yield (*place, key), f"{key} does nothing in conversations of one turn", "leave it out"
    yield from _crowded(place, load.concurrency, load.conversations, "conversations")


def _official(place: Place, load: OfficialLike) -> Iterator[Idle]:
    if not load.tools and _written(load, "tool_share") and load.tool_share:
        yield (*place, "tool_share"), "tool_share does nothing with tools: 0", "leave it out"
    if not load.tool_share and _written(load, "tools") and load.tools:
        yield (*place, "tools"), "tools does nothing with tool_share: 0", "leave it out"


def _crowded(place: Place, concurrency: int, count: int, what: str) -> Iterator[Idle]:
    """A concurrency that is never reached: the figures would be taken for those of a busier server."""
    if concurrency > count:
        said = f"concurrency is {concurrency}, and there are only {count} {what}"
        yield (*place, "concurrency"), said, f"write at most {count}, or more {what}"


def _reuse(place: Place, load: Workload) -> Iterator[Idle]:
    for key in type(load).model_fields:
        tokens = getattr(load, key)
        if not isinstance(tokens, BucketTokens) or (
            isinstance(load, OfficialLike) and key == "prompt_tokens"
        ):
            continue
        for index, bucket in enumerate(tokens.buckets):
            if _written(bucket, "reuse"):
                yield (
                    (*place, key, "buckets", index, "reuse"),
                    "reuse does nothing here: it is for the prompts of official_like",
                    "leave it out",
                )


def _records_steps(document: SpaceDocument) -> bool:
    """Whether each engine writes records of its steps into its own trial's folder."""
    file = document.engine.env.get(STEP_RECORDS)
    return isinstance(file, str) and own_records(file, document.engine.launch) is not None
