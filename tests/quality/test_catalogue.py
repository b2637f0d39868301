from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from tuner.quality.catalogue import PROBES, chosen
from tuner.spec.quality import ProbeName, Quality

DOCS = Path(__file__).parent.parent.parent / "docs" / "reference" / "quality.md"


def names(quality: Quality, *, trained: bool = True, caching: bool = True) -> dict[str, str]:
    return {p.name: n for p, n in chosen(quality, trained=trained, caching=caching).items()}


def test_the_names_are_those_that_a_search_space_knows() -> None:
    assert [probe.name for probe in PROBES] == list(get_args(ProbeName))


def test_each_says_what_it_asks_and_stands_in_the_documentation() -> None:
    text = DOCS.read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| .*? \| (\w[\w :]*)", text, re.MULTILINE))
    for probe in PROBES:
        assert probe.about.endswith(".")
        need = probe.need.replace("_", " ")
        assert rows[probe.name].strip() == ("full: " + need if probe.suite == "full" else need)


def test_a_model_with_random_weights_is_not_asked_what_it_must_have_learnt() -> None:
    assert {"tool_call", "reasoning", "image"} & set(names(Quality(), trained=False)) == set()
    assert names(Quality())["tool_call"] == "as_baseline"
    wanted = Quality(probes={"tool_call": "required"})
    assert names(wanted, trained=False)["tool_call"] == "required"


def test_the_suites() -> None:
    core, full = names(Quality()), names(Quality(suite="full"))
    assert set(full) - set(core) == {"max_tokens_64", "long_context", "worst_case"}
    assert names(Quality(suite="off")) == {}
    assert "worst_case" in names(Quality(probes={"worst_case": "allowed"}))


def test_what_is_declared_wins() -> None:
    found = names(Quality(probes={"n_2": "off", "seed": "required"}))
    assert "n_2" not in found
    assert found["seed"] == "required"


def test_the_cache_is_only_asked_for_where_there_may_be_one() -> None:
    wanted = Quality(probes={"cache": "required"})
    assert "cache" in names(wanted)
    assert "cache" not in names(wanted, caching=False)
