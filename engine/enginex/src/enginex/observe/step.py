"""What one step of the engine holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Step", "step_of"]


@dataclass(slots=True)
class Step:
    """One step, as the scheduler planned it and as it ran.

    Attributes:
        number: Of the step, from 1, in this process.
        prefill_tokens: Tokens of prompts that are computed.
        prefill_work: For each of them the tokens that it attends to, itself included, added up.
        prefill_seqs: Sequences that they belong to.
        decode_seqs: Sequences that get a token (or, with speculation, a few).
        decode_tokens: Tokens that these put into the step.
        kv_tokens: Tokens that these attend to, themselves included, added up.
        cached_tokens: Tokens that the prefix cache spared sequences that begin in this step.
        experts: Distinct routed experts that the first layer of them touched; None where it is not seen.
        graph: ``none`` for an eager step, else the kind of graph that it ran as.
    """

    number: int = 0
    prefill_tokens: int = 0
    prefill_work: int = 0
    prefill_seqs: int = 0
    decode_seqs: int = 0
    decode_tokens: int = 0
    kv_tokens: int = 0
    cached_tokens: int = 0
    experts: int | None = None
    graph: str = "none"

    @property
    def kind(self) -> str:
        """``decode`` for a step without any token of a prompt, else ``prefill``."""
        return "prefill" if self.prefill_tokens else "decode"

    def add(self, computed: int, tokens: int, prompt: int) -> None:
        """Add a sequence.

        Args:
            computed: Its tokens that are in the cache before the step.
            tokens: Its tokens in this step.
            prompt: Tokens of its prompt.
        """
        attended = tokens * computed + tokens * (tokens + 1) // 2
        if computed >= prompt:
            self.decode_seqs += 1
            self.decode_tokens += tokens
            self.kv_tokens += attended
        else:
            self.prefill_seqs += 1
            self.prefill_tokens += tokens
            self.prefill_work += attended


def step_of(planned: Any, prompts: Mapping[str, int], number: int) -> Step:
    """Read a step from vLLM's ``SchedulerOutput``.

    A sequence that was preempted computes its prompt and its own answer again; all of that counts as
    prefill up to the prompt's end and as decode after it, in which a step of many tokens is one sequence.

    Args:
        planned: What the scheduler handed to the worker.
        prompts: Tokens of each known sequence's prompt, those that begin in this step included.
        number: The step's number.
    """
    step = Step(number)
    tokens: Mapping[str, int] = planned.num_scheduled_tokens
    for new in planned.scheduled_new_reqs:
        step.cached_tokens += new.num_computed_tokens
        step.add(new.num_computed_tokens, tokens[new.req_id], prompts[new.req_id])
    running = planned.scheduled_cached_reqs
    for name, computed in zip(running.req_ids, running.num_computed_tokens, strict=True):
        if name in tokens:
            step.add(computed, tokens[name], prompts[name])
    return step
