"""What to try next, as the study itself suggests it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tuner.report.blocks import Block, Bullets, Heading, Words, code, strong, words
from tuner.report.material import Material, family_of, gates
from tuner.report.sections.say import percent
from tuner.report.sections.search import effect_of, study_noise
from tuner.report.text import value
from tuner.score.inert import Effect
from tuner.store.rows import TrialRow
from tuner.verdict.families import Family

_FEW_DF = 3
_THIN = 0.05
_NOISY = 0.1
_MANY = 0.1


def hints(material: Material) -> Iterator[Block]:
    """The list, or nothing where there is nothing to say."""
    items = [
        *_edges(material),
        *_inert(material),
        *_gains(material),
        *_families(material),
        *_noise(material),
        *_thin(material),
    ]
    if items:
        yield Heading("What to try next")
        yield Bullets(tuple(items))


def _edges(material: Material) -> Iterator[Words]:
    """Numeric parameters whose best value is the largest or smallest that was feasible."""
    best = material.best
    if best is None:
        return
    for name, chosen in best.params.items():
        if isinstance(chosen, bool) or not isinstance(chosen, int | float):
            continue
        tried = [t.params[name] for t in material.trials if name in t.params]
        numbers = {v for v in tried if isinstance(v, int | float) and not isinstance(v, bool)}
        if len(numbers) < 2 or not _matters(material, name, chosen):
            continue
        for end, word in ((max(numbers), "larger"), (min(numbers), "smaller")):
            if chosen == end:
                yield words(
                    code(name),
                    f" is at its {'upper' if word == 'larger' else 'lower'} end ({value(chosen)}) in the "
                    f"best point: try {word} values, if they make sense.",
                )


def _matters(material: Material, name: str, chosen: float) -> bool:
    """Whether the best point is good for a parameter's value, as far as the trials tell.

    Where no two trials can be compared, only a value that the search moved away to says anything.
    """
    found = effect_of(material.trials, name, study_noise(material))
    if found is not None and found.effect is not Effect.NOT_COMPARED:
        return found.effect is Effect.SEEN
    moved = material.base_params.get(name) != chosen
    return moved and material.importance.get(name, 1.0) >= _THIN


def _inert(material: Material) -> Iterator[Words]:
    of = study_noise(material)
    found: dict[Effect, list[str]] = {}
    for name in dict.fromkeys(n for t in material.trials for n in t.params):
        effect = effect_of(material.trials, name, of)
        if effect is not None:
            found.setdefault(effect.effect, []).append(name)
    if found.get(Effect.INERT):
        yield words(
            "These made no difference: ",
            code(", ".join(found[Effect.INERT])),
            ". Leave them out, and the budget goes to the others.",
        )
    if found.get(Effect.INSIDE_NOISE):
        yield words(
            "Whether these matter is hidden by the noise: ",
            code(", ".join(found[Effect.INSIDE_NOISE])),
            ".",
        )


def _gains(material: Material) -> Iterator[Words]:
    """Which phase has most to give to the weighted score; of another objective nobody knows."""
    if not material.objective.usual:
        return
    best = material.best
    loads = {} if best is None else material.loads.get(best.number, {})
    for workload, found in loads.items():
        gains: Any = found.get("gains")
        if not gains:
            continue
        name = max(("prefill", "decode", "cache"), key=lambda n: gains[n])
        what = {
            "prefill": "faster prefill (larger steps, another attention backend)",
            "decode": "faster decoding (kernels, batch of decodes, speculative decoding)",
            "cache": "more cached tokens (KV space, block size, order of requests)",
        }[name]
        where = f" on workload {workload}" if len(loads) > 1 else ""
        yield words(
            f"The score has most to gain from {what}{where}: {percent(gains[name])} for "
            f"{gains['gain']:.0%}."
        )


def _families(material: Material) -> Iterator[Words]:
    trials = [t for t in material.trials if t.verdict is not None]
    for kind, mend in (
        (
            Family.MEMORY,
            "narrow what asks for memory, or declare the machine's limits under `memory:`",
        ),
        (Family.REFUSED, "say so with a rule under `rules:`, and no start is spent on it"),
        (Family.CRASHED, "look at their proofs: a rule can keep the search away"),
    ):
        hit = [t for t in trials if family_of(t) is kind]
        if len(hit) >= 3 and len(hit) >= _MANY * len(trials):
            share = percent(len(hit) / len(trials), sign=False)
            common = _common(hit, trials)
            why = (": all of them, and no other, had ", code(common)) if common else ()
            yield words(f"{len(hit)} trials ({share}) ended with {kind.label}", *why, f"; {mend}.")


def _common(hit: Sequence[TrialRow], trials: Sequence[TrialRow]) -> str:
    """The value that exactly these trials have in common; empty where there is none."""
    first = hit[0].params
    for name, chosen in first.items():
        inside = all(t.params.get(name) == chosen for t in hit)
        outside = any(t.params.get(name) == chosen for t in trials if t not in hit)
        if inside and not outside:
            return f"{name}={value(chosen)}"
    return ""


def _noise(material: Material) -> Iterator[Words]:
    of, found = study_noise(material), material.compared
    if of is not None and of.sigma > _NOISY:
        yield words(
            strong("Measure on a quiet machine: "),
            f"a run is off by {percent(of.sigma, sign=False)}. A longer workload helps, too.",
        )
    if found is not None and material.decision and not material.decision["clear"]:
        yield words(
            "To settle whether the finalist is better, give it more rounds (",
            code("search: finalists: rounds"),
            ") or a longer workload.",
        )
    elif of is None or of.df < _FEW_DF:
        yield words(
            "Measure points more than once: nothing is known about the noise of this study."
        )


def _thin(material: Material) -> Iterator[Words]:
    best = material.best
    for _, gate in gates(best) if best is not None else []:
        margin = gate["margin"]
        if margin is not None and 0 < margin < _THIN:
            yield words(
                code(gate["figure"]),
                f" passes with {percent(margin, sign=False)} to spare: expect it to fail now and then.",
            )
