"""The same questions at another pace, for searching how much load an engine takes."""

from __future__ import annotations

import math
from dataclasses import replace

from tuner.load.plan import Closed, Open, Plan
from tuner.load.workloads.common import generator


def at_concurrency(plan: Plan, concurrency: int) -> Plan:
    """The plan in a closed loop with so many conversations at a time.

    The name says the level, so that no level meets what another left in the cache.
    """
    sessions = tuple(
        replace(session, turns=tuple(replace(turn, arrival_s=None) for turn in session.turns))
        for session in plan.sessions
    )
    name = f"{plan.workload}-c{concurrency}"
    return replace(plan, workload=name, sessions=sessions, pacing=Closed(concurrency))


def at_rate(plan: Plan, rate: float, *, repeat: int = 0) -> Plan:
    """The plan in an open loop in which so many conversations start each second, at random.

    Gaps are exponential. Later turns of a conversation follow the answer before them.

    Args:
        plan: The questions.
        rate: Conversations that start each second.
        repeat: Which repeat this is; each has gaps and a name of its own.

    Raises:
        ValueError: When the rate is not above 0.
    """
    if not 0 < rate < math.inf:
        raise ValueError(f"a rate is above 0, and not {rate}")
    rng = generator("arrivals", plan.seed, repeat)
    at = 0.0
    sessions = []
    for session in plan.sessions:
        first, *rest = session.turns
        turns = (replace(first, arrival_s=at), *(replace(turn, arrival_s=None) for turn in rest))
        sessions.append(replace(session, turns=turns))
        at -= math.log(1.0 - rng.random()) / rate
    name = f"{plan.workload}-{rate:g}rps-{repeat}"
    return replace(plan, workload=name, sessions=tuple(sessions), pacing=Open())
