"""Children that work on a study without engines, in which a proxy orders the queue and then goes wrong."""

from __future__ import annotations

from tests.crash.dying import DyingDatabase, Job, begin, serve
from tests.trial.climbs import Runner, Trials, study_of, truth
from tests.trial.proxies import Fake, acting_space, drifting
from tuner.store.ledger import Ledger
from tuner.trial.shadow import Shadow

MOST = 24
"""Trials: some before the proxy is trusted, some while it is, and what it had put off after that."""


def work_on(job: Job) -> None:
    """Work on the study until it is decided, or until this process dies."""
    folder = begin(job)
    with Ledger(folder / "state", write=True, database=DyingDatabase) as ledger:
        own = study_of(ledger, acting_space(folder, most=MOST, sampler="startup: 6"))
        Runner(Trials(own, truth, sigma=0.001), Shadow(own, Fake(drifting))).run()


if __name__ == "__main__":
    serve(work_on)
