"""Step records: what one engine step held and how long it took, read from files and from logs.

Two sources say the same. ``enginex`` can write a line of JSON a step. vLLM itself, started with
``--enable-logging-iteration-details``, logs a line a step, without the tokens that were attended
to; these are put back from the KV pool's use, which the line does say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuner.errors import UserError
from tuner.fidelity.rule import read_bytes
from tuner.fidelity.steptime import Batch, StepRecord

_ITERATION = re.compile(
    r"Iteration\((\d+)\): (\d+) context requests, (\d+) context tokens, "
    r"(\d+) generation requests, (\d+) generation tokens, iteration elapsed time: ([\d.]+) ms, "
    r".*KV cache usage: ([\d.]+)%"
)


class StepLine(BaseModel):
    """One step as a line of JSON.

    Attributes:
        prefill_tokens: Tokens of prompts that were computed.
        prefill_work: For each of them the tokens that it attends to, added up.
        decode_seqs: Sequences that got one token.
        kv_tokens: Tokens that these attended to, added up.
        seconds: How long the step took.
        experts: Distinct experts of a layer that it touched, where the engine could see them.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    prefill_tokens: int = Field(ge=0)
    prefill_work: float = Field(ge=0, allow_inf_nan=False)
    decode_seqs: int = Field(ge=0)
    kv_tokens: float = Field(ge=0, allow_inf_nan=False)
    seconds: float = Field(gt=0, allow_inf_nan=False)
    experts: int | None = Field(default=None, ge=0)

    def record(self) -> StepRecord:
        """The same as a record."""
        batch = Batch(self.prefill_tokens, self.prefill_work, self.decode_seqs, self.kv_tokens)
        return StepRecord(batch, self.seconds, self.experts)


def read_steps(path: Path) -> list[StepRecord]:
    """Read step records, one JSON object a line.

    Raises:
        UserError: When the file cannot be read, or a line is no step record.
    """
    found = []
    for number, line in enumerate(read_bytes(path, "step records (.jsonl)").splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(StepLine.model_validate_json(line).record())
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "line"
            raise UserError(
                f"{where}: {first['msg'].lower()}",
                file=path,
                line=number,
                mend="a step record has prefill_tokens, prefill_work, decode_seqs, kv_tokens, seconds",
            ) from error
    return found


def write_steps(records: Iterable[StepRecord]) -> str:
    """Step records as lines of JSON, as :func:`read_steps` reads them."""
    return "".join(
        json.dumps(
            {**r.batch._asdict(), "seconds": r.seconds, "experts": r.experts}, sort_keys=True
        )
        + "\n"
        for r in records
    )


def steps_of_log(lines: Iterable[str], *, pool_tokens: int) -> list[StepRecord]:
    """Step records from a log of vLLM.

    A step's line says the part of the KV pool that is in use after it, but not by whom. Each of the
    step's sequences is taken to hold an equal share of that; a decode sequence attends to all of its
    share, and the tokens of a prompt on average to its share but for half of what they are themselves.
    With recurrent layers the pool holds their states too, so these figures are upper bounds.

    Args:
        lines: The log.
        pool_tokens: Tokens that the KV pool holds.
    """
    found = []
    for line in lines:
        seen = _ITERATION.search(line)
        if seen is None:
            continue
        prompts, tokens, seqs = int(seen[2]), int(seen[3]), int(seen[4])
        seconds, used = float(seen[6]) / 1000, float(seen[7]) / 100 * pool_tokens
        if seconds <= 0 or prompts + seqs == 0:
            continue
        share = used / (prompts + seqs)
        each = tokens / prompts if prompts else 0.0
        work = tokens * (max(share, each) - (each - 1) / 2) if prompts else 0.0
        batch = Batch(tokens, work, seqs, share * seqs)
        found.append(StepRecord(batch, seconds))
    return found
