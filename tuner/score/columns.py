"""Records as columns: one numpy array a figure, so that a million records fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tuner.load.record import ErrorClass, Record, Since
from tuner.score.distribution import Floats
from tuner.score.intervals import Intervals

Mask = npt.NDArray[np.bool_]
NOT_SENT = frozenset({ErrorClass.NOT_SENT.value, "not_started"})
"""Error classes of requests that were planned and never sent; the second is the platform's word."""


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """A column of words, of which there are few: a number for each row, and what it stands for.

    Attributes:
        codes: For each row an index into ``names``, or -1 where there is no word.
        names: The words, in order of first appearance.
    """

    codes: npt.NDArray[np.int32]
    names: tuple[str, ...]

    @classmethod
    def of(cls, words: Iterable[str | None]) -> Labels:
        """The column that holds these words."""
        index: dict[str, int] = {}
        codes = [-1 if word is None else index.setdefault(word, len(index)) for word in words]
        return cls(np.array(codes, dtype=np.int32), tuple(index))

    def where(self, names: Iterable[str]) -> Mask:
        """The rows whose word is one of ``names``."""
        wanted = [i for i, name in enumerate(self.names) if name in set(names)]
        return np.isin(self.codes, wanted)

    def counts(self, mask: Mask) -> dict[str, int]:
        """How many of the chosen rows hold each word, most frequent first."""
        chosen = self.codes[mask]
        tally = np.bincount(chosen[chosen >= 0], minlength=len(self.names))
        pairs = [(name, int(n)) for name, n in zip(self.names, tally, strict=True) if n]
        return dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))

    def select(self, mask: Mask) -> Labels:
        """The chosen rows."""
        return Labels(self.codes[mask], self.names)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """A population of requests. Every column has one entry a request; NaN where it is not known.

    Attributes:
        scheduled: When the request was due, seconds on the load's clock.
        sent: When it was sent, seconds on the same clock.
        end: When it ended, well or not, seconds on the same clock.
        ttft_s: Seconds from sent to the first generated token, unless :meth:`since` moved the start.
        e2e_s: Seconds from the same start to the end.
        prompt_tokens: Tokens of the prompt, cached ones included.
        cached_tokens: Those of them that came from the prefix cache.
        output_tokens: Generated tokens, reasoning included.
        reasoning_tokens: Generated tokens inside the reasoning part.
        repetitive_tokens: Generated tokens in repetition, where the source counted them.
        session: Conversation number, -1 where it is not known.
        turn: Turn within the conversation, -1 where it is not known.
        error: Error class; no word for a success.
        finish_reason: What ended the answer, as the server said it.
        digest: The first 64 bits of the answer's digest, 0 where there is none.
        itl: Intervals between the chunks of the successes.
        clock_faults: Rows whose times, or whose chunks' times, ran backwards.
        absent: Names of columns that the source does not have at all.
    """

    scheduled: Floats
    sent: Floats
    end: Floats
    ttft_s: Floats
    e2e_s: Floats
    prompt_tokens: Floats
    cached_tokens: Floats
    output_tokens: Floats
    reasoning_tokens: Floats
    repetitive_tokens: Floats
    session: npt.NDArray[np.int64]
    turn: npt.NDArray[np.int64]
    error: Labels
    finish_reason: Labels
    digest: npt.NDArray[np.uint64]
    itl: Intervals
    clock_faults: Mask
    absent: frozenset[str] = field(default_factory=frozenset)

    def __len__(self) -> int:
        return int(self.sent.size)

    @property
    def ok(self) -> Mask:
        """The successes."""
        return self.error.codes < 0

    @property
    def not_sent(self) -> Mask:
        """Requests that were planned and never sent."""
        return self.error.where(NOT_SENT)

    def since(self, since: Since) -> Columns:
        """The same requests with latencies that start there; they are made to start at the send."""
        if since == "sent":
            return self
        lag = self.sent - self.scheduled
        return replace(self, ttft_s=self.ttft_s + lag, e2e_s=self.e2e_s + lag)

    def select(self, mask: Mask) -> Columns:
        """The chosen requests. Intervals between chunks belong to the whole and are left out."""
        return Columns(
            scheduled=self.scheduled[mask],
            sent=self.sent[mask],
            end=self.end[mask],
            ttft_s=self.ttft_s[mask],
            e2e_s=self.e2e_s[mask],
            prompt_tokens=self.prompt_tokens[mask],
            cached_tokens=self.cached_tokens[mask],
            output_tokens=self.output_tokens[mask],
            reasoning_tokens=self.reasoning_tokens[mask],
            repetitive_tokens=self.repetitive_tokens[mask],
            session=self.session[mask],
            turn=self.turn[mask],
            error=self.error.select(mask),
            finish_reason=self.finish_reason.select(mask),
            digest=self.digest[mask],
            itl=Intervals(),
            clock_faults=self.clock_faults[mask],
            absent=self.absent,
        )


def take_chunks(times: Sequence[Sequence[float]], counted: Mask, into: Intervals) -> Mask:
    """Gather the intervals between the chunks of each request.

    Args:
        times: Arrival of each chunk, for each request.
        counted: The requests whose intervals count.
        into: Where the intervals go.

    Returns:
        The requests whose chunks ran backwards; their intervals do not count either.
    """
    lengths = np.fromiter((len(t) for t in times), dtype=np.int64, count=len(times))
    total = int(lengths.sum())
    flat = np.fromiter((t for row in times for t in row), dtype=np.float64, count=total)
    owner = np.repeat(np.arange(len(times)), lengths)
    within = owner[1:] == owner[:-1]
    steps = np.diff(flat)[within]
    of_step = owner[1:][within]
    backwards = np.zeros(len(times), dtype=np.bool_)
    backwards[of_step[steps < 0]] = True
    into.add(steps[counted[of_step] & ~backwards[of_step]])
    return backwards


def from_records(records: Sequence[Record]) -> Columns:
    """The columns of a sequence of records."""

    def floats(values: Iterable[float | None]) -> Floats:
        return np.array(list(values), dtype=np.float64)

    sent = floats(r.sent for r in records)
    first = floats(r.first_token for r in records)
    end = floats(r.end for r in records)
    ok = np.array([r.ok for r in records], dtype=np.bool_)
    backwards = times_backwards(sent, first, end)
    itl = Intervals()
    backwards |= take_chunks([r.chunk_times for r in records], ok & ~backwards, itl)
    return Columns(
        scheduled=floats(r.scheduled for r in records),
        sent=sent,
        end=end,
        ttft_s=first - sent,
        e2e_s=end - sent,
        prompt_tokens=floats(r.prompt_tokens for r in records),
        cached_tokens=floats(r.cached_tokens for r in records),
        output_tokens=floats(r.output_tokens for r in records),
        reasoning_tokens=floats(r.reasoning_tokens for r in records),
        repetitive_tokens=np.full(len(records), np.nan),
        session=np.array([r.session for r in records], dtype=np.int64),
        turn=np.array([r.turn for r in records], dtype=np.int64),
        error=Labels.of(None if r.error is None else r.error.value for r in records),
        finish_reason=Labels.of(r.finish_reason for r in records),
        digest=np.array([digest_bits(r.answer_digest) for r in records], dtype=np.uint64),
        itl=itl,
        clock_faults=backwards,
        absent=frozenset({"repetitive_tokens"}),
    )


def times_backwards(sent: Floats, first: Floats, end: Floats) -> Mask:
    """Requests whose first token or end lies before what must come before it.

    A time that is not known compares as false and raises no suspicion.
    """
    return (first < sent) | (end < first) | (end < sent)


def digest_bits(digest: str | None) -> int:
    """The first 64 bits of a hexadecimal digest; 0 where there is none."""
    return int(digest[:16], 16) if digest else 0
