"""Workloads: what is asked of the engine while it is measured."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from tuner.spec.base import Duration, Line, Seconds, Strict

Fact = int | float
Positive = Annotated[int, Field(ge=1, le=10_000_000)]
Count = Annotated[int, Field(ge=0, le=10_000_000)]
Portion = Annotated[float, Field(ge=0, le=1)]


class UniformTokens(Strict):
    """A number of tokens drawn evenly between two bounds, both included."""

    min: Positive
    """The smallest number of tokens."""
    max: Positive
    """The largest number of tokens."""
    shape: Literal["uniform", "log"] = "uniform"
    """Even over the numbers, or even over their logarithms (many short, few long)."""

    @model_validator(mode="after")
    def _ordered(self) -> UniformTokens:
        if self.min > self.max:
            raise ValueError("min is larger than max: exchange the two")
        return self


class SkewedTokens(Strict):
    """A number of tokens with a long tail: log-normal through the median and the 90th percentile."""

    median: Positive
    """Half of the drawn numbers are at most this."""
    p90: Positive
    """Nine in ten of the drawn numbers are at most this."""
    min: Positive = 1
    """Numbers below are raised to it."""
    max: Positive
    """Numbers above are lowered to it."""

    @model_validator(mode="after")
    def _ordered(self) -> SkewedTokens:
        if not self.min <= self.median <= self.p90 <= self.max:
            raise ValueError("must rise: min, median, p90, max")
        return self


class TokenBucket(Strict):
    """One range of lengths and its share among the requests."""

    min: Positive
    """The smallest number of tokens."""
    max: Positive
    """The largest number of tokens."""
    weight: Annotated[float, Field(gt=0)]
    """Its share, relative to the other buckets' weights."""
    reuse: Portion = 0.0
    """The part of the prompt that an earlier prompt has in common with it (official_like only)."""

    @model_validator(mode="after")
    def _ordered(self) -> TokenBucket:
        if self.min > self.max:
            raise ValueError("min is larger than max: exchange the two")
        return self


class BucketTokens(Strict):
    """A number of tokens drawn from weighted ranges, evenly over the logarithms in each."""

    buckets: Annotated[tuple[TokenBucket, ...], Field(min_length=1)]
    """The ranges."""


def _token_form(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return "a number"
    if isinstance(value, BucketTokens) or (isinstance(value, dict) and "buckets" in value):
        return "ranges"
    if isinstance(value, SkewedTokens) or (isinstance(value, dict) and "median" in value):
        return "a skew"
    return "a range" if isinstance(value, UniformTokens | dict) else None


Tokens = Annotated[
    Annotated[Positive, Tag("a number")]
    | Annotated[UniformTokens, Tag("a range")]
    | Annotated[SkewedTokens, Tag("a skew")]
    | Annotated[BucketTokens, Tag("ranges")],
    Discriminator(
        _token_form,
        custom_error_type="tokens",
        custom_error_message="is no length: write a number of tokens, {min, max}, "
        "{median, p90, max} or {buckets: [...]}",
    ),
]
"""A number of tokens, fixed or drawn."""


class Between(Strict):
    """A whole number drawn evenly between two bounds, both included."""

    min: Positive
    """The smallest number."""
    max: Positive
    """The largest number."""

    @model_validator(mode="after")
    def _ordered(self) -> Between:
        if self.min > self.max:
            raise ValueError("min is larger than max: exchange the two")
        return self


def _span_form(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return "a number"
    return "a range" if isinstance(value, Between | dict) else None


Span = Annotated[
    Annotated[Positive, Tag("a number")] | Annotated[Between, Tag("a range")],
    Discriminator(
        _span_form,
        custom_error_type="span",
        custom_error_message="is no count: write a whole number, or {min, max}",
    ),
]
"""A whole number, fixed or drawn."""


def lowest(span: int | Between) -> int:
    """The smallest number of a span."""
    return span if isinstance(span, int) else span.min


def highest(span: int | Between) -> int:
    """The largest number of a span."""
    return span if isinstance(span, int) else span.max


def longest(tokens: Positive | UniformTokens | SkewedTokens | BucketTokens) -> int:
    """The largest number of tokens that can be drawn."""
    if isinstance(tokens, int):
        return tokens
    if isinstance(tokens, BucketTokens):
        return max(bucket.max for bucket in tokens.buckets)
    return tokens.max


class _Workload(Strict):
    """What all workloads declare."""

    weight: Annotated[float, Field(gt=0)] = 1.0
    """Its part in the score where a study has several workloads."""
    scale: Annotated[float, Field(gt=0, le=1000)] = 1.0
    """All lengths in tokens are multiplied by this, to fit a smaller engine to the same shape."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    """Sampling temperature; 0 is greedy."""
    ignore_eos: bool = True
    """Whether the server goes on to the full output length whatever the model says."""
    request_timeout: Duration = 300.0
    """The time that one request may take."""
    time_limit: Duration | None = None
    """The time that the whole measured load may take; what is not sent by then counts as failed."""
    seed: Count = 0
    """Seed of everything that is drawn: the same seed gives the same prompts."""

    @property
    def since(self) -> Literal["sent", "scheduled"]:
        """Where its latencies start: at the send, or when a request was due."""
        return "sent"


class WarmupConversations(Strict):
    """Load of the workload's own shape that is sent first and not counted."""

    conversations: Count = 1
    """Conversations to run before the measurement."""


class WarmupRequests(Strict):
    """Load of the workload's own shape that is sent first and not counted."""

    requests: Count = 2
    """Requests to send before the measurement."""


class Conversations(_Workload):
    """Cumulative conversations: each turn sends all that was said, the server's answers included."""

    kind: Literal["conversations"]
    """Which kind of workload this is."""
    conversations: Positive
    """How many conversations there are."""
    turns: Span
    """User turns of each conversation, fixed or drawn; one request a turn."""
    concurrency: Positive
    """How many conversations run at once."""
    system_tokens: Positive = 600
    """Length of the system prompt, which all conversations share."""
    tools: Annotated[int, Field(ge=0, le=512)] = 0
    """Functions that are offered with each request."""
    tools_in: Literal["request", "system"] = "request"
    """Where the functions stand: in the request, or as text in the system prompt, on top of it."""
    turn_tokens: Span
    """Tokens that each user turn adds, fixed or drawn."""
    growth: Annotated[float, Field(gt=0, le=10)] = 1.0
    """Each turn's length is multiplied by this once more than the turn before."""
    output_tokens: Span
    """Tokens that are asked for in each answer, fixed or drawn."""
    think_time: Seconds = 0.0
    """Pause of the user between an answer and the next turn."""
    warmup: WarmupConversations = WarmupConversations()
    """What is sent before the measurement."""

    def facts(self) -> dict[str, Fact]:
        """What expressions may name; lengths are the largest that can be drawn, after scaling."""
        turns = highest(self.turns)
        system = scaled(self.system_tokens, self.scale)
        first = scaled(highest(self.turn_tokens), self.scale)
        last = round(first * max(1.0, self.growth ** (turns - 1)))
        output = scaled(highest(self.output_tokens), self.scale)
        grown = sum(round(first * self.growth**turn) for turn in range(turns))
        return {
            "concurrency": self.concurrency,
            "conversations": self.conversations,
            "turns": turns,
            "tools": self.tools,
            "system_tokens": system,
            "turn_tokens": last,
            "output_tokens": output,
            "total_tokens": system + grown + turns * output,
        }


class DecodeCurve(_Workload):
    """Short prompts and a fixed output length, at several concurrencies one after the other."""

    kind: Literal["decode_curve"]
    """Which kind of workload this is."""
    concurrencies: Annotated[tuple[Positive, ...], Field(min_length=1)]
    """The concurrencies, in the order in which they are run."""
    rounds: Positive = 2
    """Requests of each stream at each concurrency: at concurrency c, c times as many."""
    prompt_tokens: Tokens = 32
    """Length of each prompt; no two prompts share a prefix."""
    output_tokens: Positive = 128
    """Tokens asked for in each answer."""
    warmup: WarmupRequests = WarmupRequests()
    """What is sent before the measurement."""

    @model_validator(mode="after")
    def _different(self) -> DecodeCurve:
        if len(set(self.concurrencies)) != len(self.concurrencies):
            raise ValueError("concurrencies names a number twice: keep one of the two")
        return self

    def facts(self) -> dict[str, Fact]:
        """What expressions may name; concurrency is the largest of the curve."""
        prompt = scaled(longest(self.prompt_tokens), self.scale)
        output = scaled(self.output_tokens, self.scale)
        return {
            "concurrency": max(self.concurrencies),
            "prompt_tokens": prompt,
            "output_tokens": output,
            "total_tokens": prompt + output,
        }


# The platform's published shape: prompts by length with the part that earlier prompts share, and
# the percentiles of the answers' lengths that run 694 logged.
_OFFICIAL_PROMPTS = BucketTokens(
    buckets=(
        TokenBucket(min=256, max=2047, weight=95, reuse=0.33),
        TokenBucket(min=2048, max=4095, weight=1, reuse=0.01),
        TokenBucket(min=4096, max=8191, weight=219, reuse=0.89),
        TokenBucket(min=8192, max=16383, weight=222, reuse=0.58),
        TokenBucket(min=16384, max=32767, weight=115, reuse=0.60),
        TokenBucket(min=32768, max=65535, weight=110, reuse=0.66),
        TokenBucket(min=65536, max=131071, weight=114, reuse=0.69),
        TokenBucket(min=131072, max=234436, weight=5, reuse=0.23),
    )
)
_OFFICIAL_OUTPUTS = BucketTokens(
    buckets=(
        TokenBucket(min=1, max=58, weight=10),
        TokenBucket(min=59, max=197, weight=40),
        TokenBucket(min=198, max=368, weight=25),
        TokenBucket(min=369, max=1600, weight=15),
        TokenBucket(min=1601, max=4640, weight=9),
        TokenBucket(min=4641, max=10732, weight=1),
    )
)


class OfficialLike(_Workload):
    """Requests drawn from the shape that the official platform published."""

    kind: Literal["official_like"]
    """Which kind of workload this is."""
    requests: Positive = 881
    """How many requests there are."""
    concurrency: Positive = 1
    """How many requests run at once."""
    prompt_tokens: BucketTokens = _OFFICIAL_PROMPTS
    """Lengths of the prompts, with the reuse of earlier prompts in each bucket."""
    output_tokens: Tokens = _OFFICIAL_OUTPUTS
    """Tokens asked for in each answer."""
    tools: Annotated[int, Field(ge=0, le=512)] = 8
    """Tools in the schema of a request that carries tools."""
    tool_share: Portion = 0.783
    """Part of the requests that carry tools and tool messages."""
    multi_system_share: Portion = 0.039
    """Part of the requests with more than one system message."""
    image_share: Portion = 0.0
    """Part of the requests with an image (the platform's is 0.031); for models that see."""
    max_prompt_tokens: Positive | None = None
    """Longer prompts are left out of the draw, for an engine with a shorter context."""
    warmup: WarmupRequests = WarmupRequests()
    """What is sent before the measurement."""

    def facts(self) -> dict[str, Fact]:
        """What expressions may name; lengths are the largest that can be drawn, after scaling."""
        prompt = scaled(longest(self.prompt_tokens), self.scale)
        if self.max_prompt_tokens is not None:
            prompt = min(prompt, self.max_prompt_tokens)
        output = scaled(longest(self.output_tokens), self.scale)
        return {
            "concurrency": self.concurrency,
            "requests": self.requests,
            "prompt_tokens": prompt,
            "output_tokens": output,
            "total_tokens": prompt + output,
        }


class Replay(_Workload):
    """A recorded trace, sent again: one request a row."""

    kind: Literal["replay"]
    """Which kind of workload this is."""
    file: Line
    """The trace, JSONL or CSV by its ending; the path is relative to the search space."""
    mode: Literal["closed", "open"] = "closed"
    """Closed: a new request when one ends. Open: each request at its recorded time."""
    concurrency: Positive | None = None
    """Requests at once: 1 in closed mode if left out; in open mode the most, no limit if left out."""
    time_scale: Annotated[float, Field(gt=0)] = 1.0
    """Open mode: recorded times are multiplied by this; 0.5 sends twice as fast."""
    requests: Positive | None = None
    """Only the first so many rows."""
    warmup: WarmupRequests = WarmupRequests()
    """What is sent before the measurement."""

    @model_validator(mode="after")
    def _coherent(self) -> Replay:
        if not self.file.endswith((".jsonl", ".csv")):
            raise ValueError("file must end in .jsonl or .csv")
        if self.mode == "closed" and self.time_scale != 1.0:
            raise ValueError("time_scale does nothing in closed mode: leave it out, or mode: open")
        return self

    def facts(self) -> dict[str, Fact]:
        """What expressions may name."""
        limit, requests = self.at_once, self.requests
        known: dict[str, Fact] = {} if limit is None else {"concurrency": limit}
        return known if requests is None else {**known, "requests": requests}

    @property
    def at_once(self) -> int | None:
        """The most requests that run at once; None where nothing limits them."""
        return self.concurrency or (1 if self.mode == "closed" else None)

    @property
    def since(self) -> Literal["sent", "scheduled"]:
        """Where its latencies start: in open mode when a request was due."""
        return "scheduled" if self.mode == "open" else "sent"


class Dataset(_Workload):
    """Conversations from a local file in the ShareGPT form, replayed turn by turn."""

    kind: Literal["dataset"]
    """Which kind of workload this is."""
    file: Line
    """The JSON file; the path is relative to the search space."""
    conversations: Positive
    """How many conversations are drawn from the file."""
    turns: Positive | None = None
    """The most turns that are taken of one conversation."""
    concurrency: Positive
    """How many conversations run at once."""
    output_tokens: Tokens | None = None
    """Tokens asked for in each answer; left out, as many as the recorded answer has."""
    warmup: WarmupConversations = WarmupConversations()
    """What is sent before the measurement."""

    @model_validator(mode="after")
    def _json(self) -> Dataset:
        if not self.file.endswith(".json"):
            raise ValueError("file must end in .json")
        return self

    def facts(self) -> dict[str, Fact]:
        """What expressions may name."""
        known: dict[str, Fact] = {
            "concurrency": self.concurrency,
            "conversations": self.conversations,
        }
        return known if self.turns is None else {**known, "turns": self.turns}


def scaled(tokens: int, scale: float) -> int:
    """A length after scaling: rounded, and at least one token."""
    return max(1, round(tokens * scale))


Workload = Annotated[
    Conversations | DecodeCurve | OfficialLike | Replay | Dataset, Field(discriminator="kind")
]
"""What is asked of the engine, by ``kind``."""
