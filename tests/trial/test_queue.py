"""The queue by itself, with a proxy that is trusted in everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.trial.climbs import study_of
from tests.trial.proxies import Fake, acting_space, good
from tuner.search.keys import key
from tuner.search.sampler import Sampler
from tuner.spec import axes
from tuner.store.ledger import Ledger
from tuner.trial.context import Study
from tuner.trial.ordering import BATCH, QUEUE, Ordering
from tuner.trial.shadow import Shadow


@dataclass
class Trusting:
    """Stands for a proxy and its gate: trusted from the start, and keeps what it is told to keep."""

    all_kept: bool = True
    ready: bool = True
    trusted: bool = True
    gate: Any = None
    foretold: list[int] = field(default_factory=list)

    def foretell(self, waiting: Mapping[str, Any]) -> None:
        self.foretold.append(len(waiting))

    def keeps(self, waiting: Sequence[str]) -> bool:
        return self.all_kept and bool(waiting)

    def pick(self, waiting: Sequence[str], *, last: bool) -> tuple[str, list[Any]]:
        return waiting[-1 if last else 0], []


def _sampler(study: Study) -> Sampler:
    return Sampler(axes(study.space, study.context), kind="random", seed=1, startup=1)


def test_after_a_changed_search_space_it_draws_anew_for_a_number_that_comes_again(
    tmp_path: Path,
) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        study = study_of(ledger, acting_space(tmp_path, most=9))
        sampler = _sampler(study)
        drawing = Ordering(study, Trusting())  # type: ignore[arg-type]  # what it asks of one
        assert drawing.next(sampler, 5, set(), lambda: False) is not None
        ledger.note(study.row.id, "migrated", {})
        after = Ordering(study, Trusting())  # type: ignore[arg-type]
        after.restore()
        assert after.next(sampler, 5, set(), lambda: False) is not None
        assert len(ledger.events(study.row.id, kinds=(QUEUE,))) == 2


def test_a_wish_to_end_is_heard_while_it_foretells(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        study = study_of(ledger, acting_space(tmp_path, most=9))
        fake = Fake(good)
        shadow = Shadow(study, fake)
        points = {key(a): a for a in _sampler(study).draw(1, set(), BATCH)}
        shadow.foretell(points)
        assert len(fake.asked) == BATCH
        study.wishes.pausing.set()
        before, gate = len(fake.asked), shadow.gate
        shadow.foretell({key(a): a for a in _sampler(study).draw(2, set(points), BATCH)})
        assert (len(fake.asked), shadow.gate) == (before, gate)
        # And nothing is chosen, or drawn, by half of what is known.
        ordering = Ordering(study, Trusting(all_kept=False))  # type: ignore[arg-type]
        assert ordering.next(_sampler(study), 3, set(), lambda: False) is None
        assert ledger.events(study.row.id, kinds=(QUEUE,)) == []


def test_it_draws_once_for_a_trial_but_never_goes_without(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        study = study_of(ledger, acting_space(tmp_path, most=9))
        sampler = _sampler(study)
        ordering = Ordering(study, Trusting(all_kept=False))  # type: ignore[arg-type]
        taken: set[str] = set()
        for _ in range(BATCH):
            found = ordering.next(sampler, 5, taken, lambda: False)
            assert found is not None
            taken.add(key(found.assignment))
        assert len(ledger.events(study.row.id, kinds=(QUEUE,))) == 1
        assert ordering.next(sampler, 5, taken, lambda: False) is not None  # nothing waited
        assert len(ledger.events(study.row.id, kinds=(QUEUE,))) == 2
