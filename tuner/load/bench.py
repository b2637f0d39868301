"""Workloads sent to a server that runs already: warm-up, levels, and the check of its counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from tuner.errors import UserError
from tuner.load.check import TokenCheck, check_tokens
from tuner.load.endpoint import Endpoint
from tuner.load.plan import Plan
from tuner.load.record import Record
from tuner.load.run import LoadResult, run_load
from tuner.load.tokens import FileTokens, ServerTokens, served_tokens
from tuner.load.workloads.declared import official_shape, prepare
from tuner.load.workloads.official_statistics import statistics, table
from tuner.spec.workload import OfficialLike, Workload

Shape = tuple[tuple[str, str, str], ...]
"""Rows of a table: name, published figure, own figure."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One load that was sent and measured.

    Attributes:
        plan: What was sent.
        result: What came of it.
        check: How the server's token counts held; None where it has no ``/tokenize``.
        shape: The load's own statistics beside the published ones; only of official-like loads.
    """

    plan: Plan
    result: LoadResult
    check: TokenCheck | None
    shape: Shape


def send_workloads(
    workloads: dict[str, Workload],
    endpoint: Endpoint,
    *,
    name: str,
    folder: Path,
    tokenizer: Path | None = None,
    on_record: Callable[[Plan, Record], None] | None = None,
) -> Iterator[Sent]:
    """Send each workload: its warm-up, which is not given out, and then its levels.

    Args:
        workloads: What to send, by name.
        endpoint: The server; where its model has no name, the first that it serves is asked.
        name: Runs of one name ask the same; runs of another share no prefix with them.
        folder: What relative paths in the workloads are relative to.
        tokenizer: The model's folder, for a server that has no ``/tokenize``.
        on_record: Is given each record of a measured load when its request is over.

    Raises:
        UserError: When the server cannot be asked, or a workload cannot be built.
    """
    if not endpoint.model:
        endpoint = served_model(endpoint)
    tokens = served_tokens(endpoint, tokenizer)
    try:
        for title, workload in workloads.items():
            ready = prepare(title, workload, tokens=tokens, folder=folder)
            run_load(ready.warm_up, endpoint, salt=name)
            for plan in ready.levels:
                hear = None if on_record is None else _hearing(on_record, plan)
                result = run_load(plan, endpoint, salt=name, on_record=hear)
                check = None
                if isinstance(tokens, ServerTokens):
                    check = check_tokens(plan, result, tokens)
                yield Sent(plan, result, check, _shape(title, workload, plan, tokens))
    finally:
        if isinstance(tokens, ServerTokens):
            tokens.close()


def served_model(endpoint: Endpoint) -> Endpoint:
    """The endpoint with the name of the first model that its server serves.

    Raises:
        UserError: When the server does not say.
    """
    uds = None if endpoint.uds is None else str(endpoint.uds)
    try:
        transport = httpx.HTTPTransport(uds=uds)
        with httpx.Client(transport=transport, headers=endpoint.headers, timeout=10) as http:
            reply = http.get(f"{endpoint.url}/v1/models")
            reply.raise_for_status()
            model = reply.json()["data"][0]["id"]
    except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError) as wrong:
        raise UserError(
            f"the server at {endpoint.url} does not say which model it serves: {wrong}",
            mend="start it, or name the model",
        ) from None
    return replace(endpoint, model=str(model))


def _hearing(on_record: Callable[[Plan, Record], None], plan: Plan) -> Callable[[Record], None]:
    return lambda record: on_record(plan, record)


def _shape(title: str, workload: Workload, plan: Plan, tokens: ServerTokens | FileTokens) -> Shape:
    if not isinstance(workload, OfficialLike):
        return ()
    shape = official_shape(title, workload)
    return tuple(table(statistics(plan, shape, tokens), shape))
