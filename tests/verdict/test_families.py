from __future__ import annotations

import pytest

from tuner.verdict.families import Family, family
from tuner.verdict.kinds import Verdict

_OUTSIDE = {
    Verdict.RESIDUE,
    Verdict.PORT_TAKEN,
    Verdict.SICK_DEVICE,
    Verdict.DRIVER_TROUBLE,
    Verdict.HOST_TROUBLE,
    Verdict.CANCELLED,
    Verdict.UNKNOWN,
}


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_has_a_family_of_its_own_choosing(verdict: Verdict) -> None:
    found = family(str(verdict), feasible=None)
    assert (found is Family.OUTSIDE) == (verdict in _OUTSIDE)
    assert found.label


def test_a_healthy_trial_that_missed_a_gate() -> None:
    assert family("healthy", feasible=True) is Family.GOOD
    assert family("healthy", feasible=False) is Family.MISSED
    assert family("host_oom", feasible=False) is Family.MEMORY
    assert family(None, feasible=None) is Family.OPEN
    assert family("rejected_by_rule", feasible=False) is Family.REFUSED
    assert family("clearly_worse", feasible=None) is Family.WORSE
    assert family("a word of tomorrow", feasible=None) is Family.OUTSIDE
