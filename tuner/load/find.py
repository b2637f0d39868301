"""The highest load that a server takes within limits, searched with the questions of one workload."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from tuner.errors import UserError
from tuner.load.bench import served_model
from tuner.load.endpoint import Endpoint
from tuner.load.rate import Found, RateSearch, search_rate
from tuner.load.repace import at_concurrency, at_rate
from tuner.load.run import LoadResult, run_load
from tuner.load.tokens import ServerTokens, served_tokens
from tuner.load.workloads.declared import prepare
from tuner.spec.workload import Workload


def find_load(
    workload: tuple[str, Workload],
    endpoint: Endpoint,
    search: RateSearch,
    margin: Callable[[LoadResult], float],
    *,
    name: str,
    folder: Path,
    tokenizer: Path | None = None,
) -> Found:
    """Search the highest level that holds: the warm-up first, then level by level.

    Levels are conversations that start each second or, whole ones, conversations at once. No
    measurement meets what another one left in the cache: each has a name of its own.

    Args:
        workload: Its title and what asks the questions; its own pace is not used.
        endpoint: The server.
        search: What is searched.
        margin: How far a load lies within the limits, as :mod:`tuner.load.rate` takes it.
        name: The name of the loads' salts.
        folder: What the workload's files are relative to.
        tokenizer: The model's folder, for a server without ``/tokenize``.

    Raises:
        UserError: When the server cannot be asked, or the workload cannot be built or paced so.
    """
    endpoint = endpoint if endpoint.model else served_model(endpoint)
    tokens = served_tokens(endpoint, tokenizer)
    with tokens if isinstance(tokens, ServerTokens) else nullcontext():
        ready = prepare(*workload, tokens=tokens, folder=folder)
    plan = ready.levels[0]
    if len(ready.levels) > 1:
        raise UserError("this workload has levels of its own", mend="name another one")
    if search.whole and search.high > len(plan.sessions):
        raise UserError(
            f"{search.high:g} conversations at once are never reached: there are {len(plan.sessions)}",
            mend="lower the upper end, or declare more conversations",
        )
    run_load(ready.warm_up, endpoint, salt=name)
    numbers = itertools.count()

    def measure(level: float) -> float:
        turn = next(numbers)
        paced = (
            at_concurrency(plan, int(level)) if search.whole else at_rate(plan, level, repeat=turn)
        )
        return margin(run_load(paced, endpoint, salt=f"{name}-{turn}"))

    return search_rate(search, measure)
