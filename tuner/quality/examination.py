"""All that is found out about an engine's quality, put together: probes, answers, numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.load.endpoint import Endpoint
from tuner.load.run import Flag
from tuner.quality.agreement import Agreement, agree
from tuner.quality.answers import Sheet, ask_alone, ask_crowd, non_finite
from tuner.quality.asking import Asker, ProbeFailed
from tuner.quality.catalogue import Probe
from tuner.quality.suite import Interrupted, ProbeResult, failures, run_probes, unless
from tuner.spec.quality import Answers, Need


@dataclass(frozen=True, slots=True)
class Reference:
    """What the baseline showed.

    Attributes:
        results: Its probes.
        sheet: Its answers; empty where none are compared.
    """

    results: tuple[ProbeResult, ...]
    sheet: Sheet


@dataclass(frozen=True, slots=True)
class Examination:
    """What an engine showed.

    Attributes:
        results: What became of each probe.
        sheet: Its answers.
        agreement: How they compare to the baseline's; None for the baseline itself, and where
            answers are not compared.
        non_finite: Proof of numbers that are none; None where all are finite.
        unanswered: Why there is no sheet though one was asked for.
        problems: Failed probes that make it unhealthy, in words.
    """

    results: tuple[ProbeResult, ...] = ()
    sheet: Sheet = field(default_factory=dict)
    agreement: Agreement | None = None
    non_finite: str | None = None
    unanswered: str | None = None
    problems: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The examination as JSON-ready data, without the answers themselves."""
        return {
            "probes": [result.as_json() for result in self.results],
            "answers": None if self.agreement is None else self.agreement.as_json(),
            "non_finite": self.non_finite,
            "problems": list(self.problems),
        }


@dataclass(frozen=True, slots=True)
class Examiner:
    """How the engines of a study are examined.

    Attributes:
        endpoint: The engine.
        answers: The oracle's rule.
        timeout: Seconds that one request may take.
        context: The longest sequence that the engine takes, in tokens; None where it did not say.
        long_text: A text of many tokens, the same for all engines of the study.
        stop: Ends everything; set when the engine is gone.
        on_reply: Called at each sign of life.
    """

    endpoint: Endpoint
    answers: Answers
    timeout: float
    context: int | None
    long_text: str
    stop: Flag
    on_reply: Callable[[], None]

    def examine(
        self,
        probes: Mapping[Probe, Need],
        reference: Reference | None,
        hear: Callable[[ProbeResult], None],
        *,
        one_by_one: bool = False,
    ) -> Examination:
        """Ask everything.

        Args:
            probes: The probes, with what a failure means.
            reference: What the baseline showed; None for the baseline itself.
            hear: Is given each probe's result.
            one_by_one: Ask no two probes at once.
        """
        return asyncio.run(self._examine(probes, reference, hear, one_by_one=one_by_one))

    def again(self, reference: Reference) -> Agreement | None:
        """The answers once more, one by one, after a load; None where none are compared or came."""
        return asyncio.run(self._again(reference))

    async def _examine(
        self,
        probes: Mapping[Probe, Need],
        reference: Reference | None,
        hear: Callable[[ProbeResult], None],
        *,
        one_by_one: bool,
    ) -> Examination:
        ask = self._asker()
        try:
            sheet, unanswered = await self._sheet(ask)
            results = await run_probes(ask, probes, self.stop, hear, one_by_one=one_by_one)
        finally:
            await ask.close()
        problems = failures(results, None if reference is None else reference.results)
        if unanswered is not None:
            problems = (f"answers: {unanswered}", *problems)
        spoilt = non_finite(sheet)
        return Examination(
            results=results,
            sheet=sheet,
            agreement=_compared(sheet, reference, self.answers) if spoilt is None else None,
            non_finite=spoilt,
            unanswered=unanswered,
            problems=problems,
        )

    async def _again(self, reference: Reference) -> Agreement | None:
        ask = self._asker()
        try:
            sheet = await unless(self.stop, self._alone(ask))
        except (ProbeFailed, Interrupted):
            return None  # the engine's own end, or the load's own failures, say why
        finally:
            await ask.close()
        spoilt = non_finite(sheet)
        if spoilt is not None:
            return Agreement(len(sheet), 0, None, None, None, spoilt)
        return _compared(sheet, reference, self.answers)

    async def _sheet(self, ask: Asker) -> tuple[Sheet, str | None]:
        """Both rounds of answers; or why there are none."""
        if self.answers.match == "off":
            return {}, None
        try:
            alone = await unless(self.stop, self._alone(ask))
            crowd = await unless(
                self.stop, ask_crowd(ask, self.answers.tokens, logprobs=self._logprobs)
            )
        except ProbeFailed as wrong:
            return {}, str(wrong)
        except Interrupted:
            return {}, None
        return {**alone, **crowd}, None

    async def _alone(self, ask: Asker) -> Sheet:
        if self.answers.match == "off":
            return {}
        return await ask_alone(ask, self.answers.tokens, logprobs=self._logprobs)

    @property
    def _logprobs(self) -> bool:
        return self.answers.match != "exact"

    def _asker(self) -> Asker:
        return Asker(
            self.endpoint,
            timeout=self.timeout,
            context=self.context,
            long_text=self.long_text,
            on_reply=self.on_reply,
        )


def _compared(sheet: Sheet, reference: Reference | None, rule: Answers) -> Agreement | None:
    if reference is None or not sheet or not reference.sheet:
        return None
    return agree(sheet, reference.sheet, rule)
