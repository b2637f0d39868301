from __future__ import annotations

import numpy as np
import pytest

from tuner.score.contenders import Selection, contenders
from tuner.score.noise import Noise, pooled_noise

QUIET = Noise(sigma=0.02, df=30)
SELECTION = Selection(finalists=2, worthwhile=0.02)
BASELINE = [100.0, 100.0, 100.0]


def test_clear_losers_are_out_and_told_why() -> None:
    found = contenders({"bad": [80.0], "good": [110.0]}, BASELINE, QUIET, SELECTION)
    assert found.kept == found.finalists == ("good",)
    assert found.dropped == {"bad": "-20.0 % from 1 run: no gain of 2 %"}
    assert found.repeat == ()


def test_no_repeat_where_the_finalists_are_known() -> None:
    trials = {"a": [110.0], "b": [112.0], "c": [85.0]}
    assert contenders(trials, BASELINE, QUIET, SELECTION).repeat == ()


def test_close_contenders_are_repeated_equally_often() -> None:
    trials = {"a": [104.0], "b": [105.0], "c": [103.0, 103.0], "d": [70.0]}
    found = contenders(trials, BASELINE, QUIET, SELECTION)
    assert found.kept == ("b", "a", "c")
    assert found.repeat == ("b", "a")


def test_those_clearly_behind_the_finalists_are_out() -> None:
    trials = {"a": [150.0], "b": [150.0], "c": [110.0]}
    found = contenders(trials, BASELINE, QUIET, SELECTION)
    assert found.finalists == ("a", "b")
    assert found.dropped == {"c": "clearly behind 2 others"}


def test_repeats_end() -> None:
    trials = {name: [104.0] * 3 for name in "abcd"}
    found = contenders(trials, BASELINE, QUIET, SELECTION)
    assert found.repeat == ()
    assert len(found.finalists) == 2
    assert len(found.kept) == 4


def test_lower_is_better_for_times() -> None:
    selection = Selection(finalists=1, better="lower")
    found = contenders({"slow": [130.0], "fast": [70.0]}, BASELINE, QUIET, selection)
    assert found.finalists == ("fast",)


def test_no_trials() -> None:
    found = contenders({}, BASELINE, QUIET, SELECTION)
    assert (found.kept, found.repeat, found.finalists) == ((), (), ())


def test_a_gain_is_rarely_dropped_and_repeats_are_spared() -> None:
    generator = np.random.default_rng(6)
    studies = 100
    kept = runs = 0
    for _ in range(studies):
        effects = {str(k): generator.uniform(-0.2, 0.0) for k in range(20)} | {"7": 0.05}
        baseline = np.exp(generator.normal(0, 0.02, 4)).tolist()
        trials = {k: [float(np.exp(generator.normal(e, 0.02)))] for k, e in effects.items()}
        while True:
            noise = pooled_noise([baseline, *trials.values()])
            found = contenders(trials, baseline, noise, Selection())
            if not found.repeat:
                break
            for name in found.repeat:
                trials[name].append(float(np.exp(generator.normal(effects[name], 0.02))))
        kept += "7" in found.finalists
        runs += sum(map(len, trials.values()))
    assert kept >= 0.95 * studies
    assert runs < 0.6 * studies * 60  # against three runs for each of 20


def test_measurements_must_be_above_nothing() -> None:
    with pytest.raises(ValueError, match="above 0"):
        contenders({"a": [0.0]}, BASELINE, QUIET, SELECTION)
