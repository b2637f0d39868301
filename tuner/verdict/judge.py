"""From evidence to a judgement: which rule decides, what proves it, what follows."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.verdict.evidence import Evidence, ExitFacts
from tuner.verdict.kinds import Rank, Retry, Role, Stage, Verdict
from tuner.verdict.reading import Boot, Hit, Numbers, Proof
from tuner.verdict.rules import Rule, SignalRule, Table, table
from tuner.verdict.signals import signals_of

_PROOFS = 8
_NOTES = 12


@dataclass(frozen=True, slots=True)
class Judgement:
    """Why an engine ended as it did.

    Attributes:
        verdict: The verdict.
        title: What that means, in a few words.
        stage: Where the engine was.
        rule: Name of the rule that decided.
        evidence: What proves it, the deciding line first.
        notes: Other findings worth knowing; they decided nothing.
        numbers: Amounts that the deciding line gave.
        advice: What to do.
        teaches: Whether the configuration caused it, so that the sampler may learn from it. With
            ``retry`` at ``confirm_once`` it does so only when it happens again.
        retry: What may be done with the same point again.
        violation: How far over it was (see :attr:`Numbers.violation`); None where it does not teach
            or no amounts are known.
        exit: How the process ended, where that is known.
        starts: How many starts the log holds.
    """

    verdict: Verdict
    title: str
    stage: Stage
    rule: str
    evidence: tuple[Proof, ...]
    notes: tuple[Proof, ...]
    numbers: Numbers | None
    advice: str
    teaches: bool
    retry: Retry
    violation: float | None
    exit: ExitFacts | None = None
    starts: int = 1

    @property
    def failed(self) -> bool:
        """Whether the engine or what it computed cannot be used."""
        return self.verdict not in (Verdict.HEALTHY, Verdict.STOPPED_CLEANLY)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Something that could decide."""

    rule: Rule | SignalRule
    verdict: Verdict
    stage: Stage
    proof: Proof
    numbers: Numbers | None = None
    over: tuple[Verdict, ...] = ()

    @property
    def key(self) -> tuple[int, int, int]:
        return (self.rule.rank.order, -self.rule.weight, self.proof.line or 0)


def judge(evidence: Evidence, rules: Table | None = None) -> Judgement:
    """The judgement that the evidence supports.

    A pure function: the same evidence gives the same judgement. Hits of rules on the log and rules
    on everything else stand in one order: rank, then weight, then the earlier line.

    Args:
        evidence: What is known.
        rules: The table; the one that ships with tuner where none is given.
    """
    known = rules or table()
    boot = _boot(evidence)
    ended = evidence.exit
    if ended is None and boot is not None and boot.exit_code is not None:
        ended = ExitFacts.from_code(boot.exit_code)
    signals = signals_of(evidence, boot, ended)
    hits = _standing(boot)
    stage = _stage(evidence, boot)
    candidates = [
        _from_hit(hit)
        for hit in hits
        if hit.rule.rank is not Rank.NOTE and not signals.keys() & set(hit.rule.none)
    ]
    candidates += _from_signals(known, signals, stage)
    chosen = _choose(candidates)
    return _judgement(known, evidence, chosen, hits, boot, ended, stage)


def _boot(evidence: Evidence) -> Boot | None:
    """The start that is judged: the last that came to anything, else the last."""
    if evidence.log is None:
        return None
    boots = evidence.log.boots
    if evidence.exit is not None or evidence.running:
        return boots[-1]
    return next((boot for boot in reversed(boots) if boot.decided), boots[-1])


def _standing(boot: Boot | None) -> list[Hit]:
    """The hits that count: not the noise of a stop, not what the engine went on after."""
    if boot is None:
        return []
    hits = boot.hits
    fatal = [hit for hit in hits if hit.rule.rank.fatal and hit.role is not Role.KERNEL]
    if boot.stop is not None and not any(hit.line < boot.stop.place for hit in fatal):
        return [hit for hit in hits if hit not in fatal]
    died = any(hit.rule.rank is Rank.ECHO or hit.rule.ends for hit in fatal)
    if boot.served is not None and not died:
        gone = [hit for hit in fatal if hit.line < boot.served.place]
        return [hit for hit in hits if hit not in gone]
    return hits


def _stage(evidence: Evidence, boot: Boot | None) -> Stage:
    stages = [Stage.UNKNOWN]
    if boot is not None:
        stages.append(Stage.STOPPING if boot.stop is not None else boot.stage)
    if evidence.stage is not None:
        stages.append(evidence.stage.stage)
    return max(stages, key=lambda stage: stage.order)


def _from_hit(hit: Hit) -> _Candidate:
    rule = hit.rule
    verdict = rule.by_stage.get(hit.stage) or rule.by_role.get(hit.role) or rule.verdict
    return _Candidate(rule, verdict, hit.stage, Proof(hit.line, hit.text), hit.numbers)


def _from_signals(known: Table, signals: dict[str, Proof], stage: Stage) -> list[_Candidate]:
    found = []
    for rule in known.signals:
        if rule.stages and stage not in rule.stages:
            continue
        if all(name in signals for name in rule.all) and not any(n in signals for n in rule.none):
            proof = signals[rule.all[0]]
            found.append(_Candidate(rule, rule.verdict, stage, proof, over=rule.over))
    return found


def _choose(candidates: list[_Candidate]) -> _Candidate:
    plain = sorted((c for c in candidates if not c.over), key=lambda c: c.key)
    best = plain[0]
    for candidate in candidates:
        if best.verdict in candidate.over:
            return candidate
    return best


def _judgement(
    known: Table,
    evidence: Evidence,
    chosen: _Candidate,
    hits: list[Hit],
    boot: Boot | None,
    ended: ExitFacts | None,
    stage: Stage,
) -> Judgement:
    kind = known.kinds[chosen.verdict]
    rule = chosen.rule
    teaches = kind.teaches if rule.teaches is None else rule.teaches
    where = chosen.stage
    if where is Stage.UNKNOWN:
        where = boot.stage if boot is not None and rule.rank.fatal else stage
    return Judgement(
        verdict=chosen.verdict,
        title=kind.title,
        stage=where,
        rule=rule.id,
        evidence=_proofs(evidence, chosen, hits, boot, ended),
        notes=_notes(hits, chosen),
        numbers=chosen.numbers,
        advice=rule.advice or kind.advice,
        teaches=teaches,
        retry=rule.retry or kind.retry,
        violation=chosen.numbers.violation if teaches and chosen.numbers else None,
        exit=ended,
        starts=evidence.log.starts if evidence.log is not None else 0,
    )


def _proofs(
    evidence: Evidence,
    chosen: _Candidate,
    hits: list[Hit],
    boot: Boot | None,
    ended: ExitFacts | None,
) -> tuple[Proof, ...]:
    proofs = [chosen.proof]
    proofs += [
        Proof(hit.line, hit.text)
        for hit in hits
        if hit.rule.rank.fatal and hit.line != chosen.proof.line
    ]
    if boot is not None and boot.exit_line is not None:
        proofs.append(boot.exit_line)
    elif ended is not None:
        proofs.append(Proof(None, ended.words))
    if ended is not None and evidence.doing is not None:
        proofs.append(Proof(None, evidence.doing))
    if chosen.verdict is Verdict.QUALITY_FAILED:
        proofs += [Proof(None, words) for words in evidence.failed_probes]
    if chosen.verdict is Verdict.UNKNOWN and evidence.log is not None:
        tail = evidence.log.tail
        return (*(proof for proof in proofs if proof not in tail), *tail)
    return tuple(dict.fromkeys(proofs[:_PROOFS]))


def _notes(hits: list[Hit], chosen: _Candidate) -> tuple[Proof, ...]:
    notes = [
        Proof(hit.line, hit.text)
        for hit in hits
        if not hit.rule.rank.fatal and hit.line != chosen.proof.line
    ]
    return tuple(dict.fromkeys(notes))[:_NOTES]
