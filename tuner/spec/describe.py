"""A search space in lines for people: everything that it declares, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.quantity import format_bytes, format_seconds
from tuner.spec.axes import Layout, layout
from tuner.spec.checks.parameters import domain_text
from tuner.spec.context import Context
from tuner.spec.dependencies import group_of
from tuner.spec.notes import notes
from tuner.spec.parameter import Group, Parameter
from tuner.spec.points import baseline, first_points, grid_size
from tuner.spec.score import Gates, Score
from tuner.spec.soundness import check
from tuner.spec.space import SearchSpace
from tuner.spec.values import key, label
from tuner.spec.wording import amount, fields, fixed_value

_AT_MOST = frozenset({"ttft_p90_s"})


def describe(space: SearchSpace, context: Context) -> list[str]:
    """All of a search space: what is searched, fixed, ruled out, asked, and what may be spent.

    Args:
        space: The search space.
        context: The machine and the workloads.

    Raises:
        SpaceError: When the space does not hold together on this machine.
    """
    check(space, context)
    plan = layout(space, context)
    sections = (
        ("study", _study(space, context)),
        ("engine", _engine(space)),
        ("parameters", _parameters(space)),
        ("groups", _groups(space, plan)),
        ("computed", _computed(space)),
        ("rules", _rules(space)),
        ("first points", _first(space, context)),
        ("workload", _workloads(space)),
        ("levels", _levels(space)),
        ("quality", _quality(space)),
        ("score", _score(space)),
        ("limits", _limits(space, context)),
        ("export", _export(space)),
        ("notes", iter(notes(space, context))),
    )
    lines: list[str] = []
    for title, body in sections:
        inside = list(body)
        if inside:
            lines += [f"{title}:", *(f"  {line}" for line in inside)]
    return lines


def _study(space: SearchSpace, context: Context) -> Iterator[str]:
    search = space.search
    endless = any(axis.size is None for axis in layout(space, context).axes)
    count = "no end of points" if endless else f"{grid_size(space, context):,} points"
    random = f"{search.startup} trial{'' if search.startup == 1 else 's'} at random first"
    startup = f", {random}" if search.sampler == "tpe" else ""
    yield f"{space.study}: {count}, sampler {search.sampler}{startup}, seed {space.seed}"
    if search.proxy != "shadow":
        word = (
            "orders the search once it has earned that" if search.proxy == "on" else "is left out"
        )
        yield f"the step simulator {word}"
    finalists = search.finalists
    if finalists.count:
        yield (
            f"finalists: the best {finalists.count}, measured again in turns with the baseline, two "
            f"starts of each a round, {'one round' if finalists.rounds == 1 else f'at most {finalists.rounds} rounds'}"
        )
    yield f"fingerprint {space.fingerprint}"


def _engine(space: SearchSpace) -> Iterator[str]:
    engine = space.engine
    manner = "as a process" if engine.launch == "process" else "in a container"
    yield f"recipe {', '.join(choice.name for choice in space.engines)}, started {manner}"
    yield f"model {', '.join(model.name for model in space.models)}, served as {engine.served_name}"
    if engine.port is not None:
        yield f"port {engine.port} on 127.0.0.1"
    for flag, value in engine.flags.items():
        yield f"flag {flag}: {fixed_value(flag, value)}"
    for name, content in engine.env.items():
        yield f"env {name}: {fixed_value(name, content)}"
    if engine.allow_code:
        yield "flags and variables that load code are allowed (allow_code: true)"
    deadlines = engine.deadlines
    yield (
        f"deadlines: start {format_seconds(deadlines.start)}, silence "
        f"{format_seconds(deadlines.silence)}, tokens {format_seconds(deadlines.tokens)}, "
        f"stop {format_seconds(deadlines.stop)}"
    )


def _parameters(space: SearchSpace) -> Iterator[str]:
    groups = group_of(space.document)
    for name, parameter in space.parameters.items():
        yield _parameter(name, parameter, groups.get(name))
        if parameter.description:
            yield f"    {parameter.description}"
        for choice, bundle in (parameter.bundle or {}).items():
            sets = [*bundle.flags, *bundle.env]
            yield f"    {choice} sets {', '.join(sets) if sets else 'nothing'}"


def _parameter(name: str, parameter: Parameter, group: str | None) -> str:
    aim = parameter.aim or ("a bundle" if parameter.bundle else "used in expressions")
    values = f"in the group {group}" if group else domain_text(parameter)
    unit = f" {parameter.unit}" if parameter.unit else ""
    when = f"; exists when {parameter.when}" if parameter.when else ""
    return f"{name} ({aim}): {values}{unit}; baseline {key(label(parameter.baseline))}{when}"


def _groups(space: SearchSpace, plan: Layout) -> Iterator[str]:
    for name, group in space.groups.items():
        when = f"; exists when {group.when}" if group.when else ""
        count = len(plan.entries[name])
        yield f"{name} ({', '.join(group.members)}): {count} combinations{_whence(group)}{when}"
        if group.description:
            yield f"    {group.description}"
        for entry in plan.entries[name][:20]:
            yield "    " + ", ".join(f"{one} {key(label(value))}" for one, value in entry.items())
        if count > 20:
            yield f"    … and {count - 20} more"


def _whence(group: Group) -> str:
    """Where a group's combinations come from, as far as they are not written out."""
    said = ""
    if group.parallel is not None:
        sizes = group.parallel
        relation, amount = (
            ("divides", sizes.divides) if sizes.equals is None else ("equals", sizes.equals)
        )
        said = f" whose product {relation} {amount}"
    return f"{said} for which {group.require}" if group.require is not None else said


def _computed(space: SearchSpace) -> Iterator[str]:
    for name, item in space.computed.items():
        yield f"{name} ({item.aim or 'used in expressions'}) = {item.value}"
        if item.description:
            yield f"    {item.description}"


def _rules(space: SearchSpace) -> Iterator[str]:
    for rule in space.rules:
        yield f"{rule.text}: {rule.reason}"


def _first(space: SearchSpace, context: Context) -> Iterator[str]:
    start = baseline(space, context)
    for found in first_points(space, context):
        changed = {name: value for name, value in found.items() if start.get(name) != value}
        yield ", ".join(f"{name} {key(value)}" for name, value in changed.items()) or "the baseline"


def _workloads(space: SearchSpace) -> Iterator[str]:
    for load in space.loads:
        weight = f", weight {load.weight:g}" if len(space.loads) > 1 else ""
        yield f"{load.name}: {load.workload.kind}{weight}"
        yield f"    {fields(load.workload, without=frozenset({'kind', 'weight'}))}"
        known = ", ".join(f"{name} {value:g}" for name, value in load.workload.facts().items())
        yield f"    known to expressions: {known}"


def _levels(space: SearchSpace) -> Iterator[str]:
    """What is asked on each cheaper level, and what it leaves out."""
    several = space.document.workloads is not None
    for level in space.levels:
        asked = []
        for name, change in level.changes.items():
            said = fields(change)
            asked.append(f"{name}: {said or 'as it is'}" if several else said)
        text = "; ".join(part for part in asked if part) or "the workload as it is"
        ends = ", until it has settled" if level.until_settled else ""
        yield f"{level.name}: {text}{ends}; leaves out {level.leaves_out}"
    if space.levels:
        climb = space.search.climb
        yield (
            f"the best {climb.keep:.0%} climb, at least {climb.at_least}; the baseline, the first "
            f"{climb.anchors} candidates and every {climb.audit}. one are measured on all levels"
        )


def _quality(space: SearchSpace) -> Iterator[str]:
    quality = space.quality
    if quality.suite == "off":
        yield "probes: one chat must be answered, no more is asked"
    else:
        yield f"probes: the {quality.suite} suite, {quality.timeout:g} s a request"
    for name, need in quality.probes.items():
        yield f"probe {name}: {need.replace('_', ' ')}"
    answers = quality.answers
    if answers.match == "off":
        yield "answers are not compared"
    else:
        degree = {
            "exact": "the same text as the baseline's",
            "first": "the baseline's first tokens",
            "distance": f"log-probabilities within {answers.tolerance:g} nats of the baseline's in "
            "the mean, and ten times that anywhere",
        }[answers.match]
        yield f"greedy answers of {answers.tokens} tokens: {degree}"


def _objective(score: Score) -> Iterator[str]:
    """What the score is, where it is not the weighted score."""
    if score.objectives is not None and score.choose is not None:
        first, second = score.objectives
        yield f"two objectives: {first} and {second}"
        choose, other = score.choose, score.other
        if other is not None:
            word = "at most" if other.endswith("_s") else "at least"
            yield f"the best {choose.best} wins, with {other} {word} {choose.limit:g}"
        else:
            rest = 1 - (choose.balance or 0)
            yield f"a gain in {first} weighs {choose.balance:g}, one in {second} {rest:g}"
    elif score.objective != "weighted":
        yield f"the score is {score.objective}: requests a second that keep the limits"
    if score.limits is not None:
        limits = score.limits.model_dump(exclude_none=True)
        words = {name: "at least" if name == "output_tps" else "at most" for name in limits}
        kept = ", ".join(f"{name} {words[name]} {value:g}" for name, value in limits.items())
        yield f"a request counts with {kept}"


def _weighted(score: Score) -> str:
    return "" if score.figures == ("weighted",) else "weighted, beside it: "


def _score(space: SearchSpace) -> Iterator[str]:
    yield from _objective(space.score)
    weights = space.score.weights
    yield (
        f"{_weighted(space.score)}{weights.output_tps:g} * output TPS "
        f"+ {weights.uncached_input_tps:g} * uncached input TPS "
        f"+ {weights.cached_tps:g} * cached TPS ({space.score.profile})"
    )
    for name in Gates.model_fields:
        value = getattr(space.score.gates, name)
        bound = "at most" if name in _AT_MOST else "at least"
        if name == space.score.other:
            continue  # the rule's limit stands in its place
        yield f"gate {name}: off" if value == "off" else f"gate {name}: {bound} {value:g}"


def _limits(space: SearchSpace, context: Context) -> Iterator[str]:
    budget = space.budget
    trials = "1 trial" if budget.trials == 1 else f"{budget.trials} trials"
    parts = [trials] if budget.trials is not None else []
    if budget.wall is not None:
        parts.append(f"{format_seconds(budget.wall)} of wall time")
    if budget.engine is not None:
        parts.append(f"{format_seconds(budget.engine)} of engine time")
    first = ", whichever comes first" if len(parts) > 1 else ""
    yield f"budget: {' or '.join(parts)}{first}"
    if space.document.decode_profile:
        yield "after the search: the winner once more, with the stages of its steps timed"
    hardware = context.hardware
    memory = f" of {format_bytes(hardware.device_memory_bytes)}" if hardware.devices else ""
    assumed = sorted(space.hardware.model_fields_set)
    yield (
        f"machine: {hardware.cores} cores, {format_bytes(hardware.memory_bytes)}, "
        f"{hardware.devices} devices{memory}"
        + (f" ({', '.join(assumed)} as the search space has it)" if assumed else "")
    )
    yield f"host memory of the engine: at most {amount(space.memory.host)}"
    if hardware.devices:
        yield f"free memory of each device: at least {amount(space.memory.device_floor)}"


def _export(space: SearchSpace) -> Iterator[str]:
    export = space.export
    yield f"to {export.dir}, concurrency {export.concurrency}"
    if export.python is not None:
        yield f"interpreter {export.python}"
    if export.model_path is not None:
        yield f"model {export.model_path}"
    for name, value in export.env.items():
        yield f"env {name}: {value}"
    if export.drop_env:
        yield f"without the variables {', '.join(export.drop_env)}"
