"""The reference page: each of its examples is read, and no key of the schema is missing from it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.spec import Context, Hardware, SearchSpace, baseline, describe, first_points, resolve
from tuner.spec.schema import schema

Build = Callable[..., SearchSpace]

PAGE = Path("docs/reference/search-space.md")
EXAMPLES = re.findall(
    r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
FILES = {
    "chat.jinja": "{{ messages }}",
    "other.jinja": "{{ messages }}!",
    "trace.jsonl": "{}\n",
    "sharegpt.json": "[]",
}


@pytest.fixture
def files(tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: " ".join(text.split())[:50])
def test_every_example_is_a_search_space(build: Build, example: str) -> None:
    space = build(example, any_version=True)
    context = Context.of(space, Hardware(4, 8, 64 << 30, 32 << 30))
    for point in (baseline(space, context), *first_points(space, context)):
        assert resolve(space, point, context).recipe
    assert describe(space, context)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 20


def _keys(part: Any) -> set[str]:
    found: set[str] = set()
    if isinstance(part, dict):
        found |= set(part.get("properties", {}))
        for value in part.values():
            found |= _keys(value)
    elif isinstance(part, list):
        for value in part:
            found |= _keys(value)
    return found


def test_every_key_is_in_an_example_or_in_a_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    written = set(re.findall(r"(?:^|[{,\s])\"?(\w+):", "\n".join(EXAMPLES)))
    named = set(re.findall(r"`(\w+)`", page))
    assert _keys(schema()) - written - named == set()


def test_the_defaults_that_it_says_are_the_defaults() -> None:
    from tuner.spec.document import Deadlines, Export, Finalists, Repeats, Search
    from tuner.spec.levels import Climbing
    from tuner.spec.limits import Memory
    from tuner.spec.score import Gates, Weights

    deadlines = Deadlines()
    assert (deadlines.start, deadlines.silence) == (900, 300)
    assert (deadlines.tokens, deadlines.stop) == (120, 60)
    assert Search().startup == 10
    assert (Finalists().count, Finalists().rounds) == (2, 6)
    assert Search().stop_early
    assert tuple(Repeats().model_dump().values()) == (2, 3, 12, 0.02)
    assert tuple(Climbing().model_dump().values()) == (0.1, 3, 4, 7)
    assert Export().dir == "deploy/{study}"
    assert (Memory().host.share, Memory().device_floor.share) == (0.9, 0.02)
    assert Gates().model_dump() == {
        "success_rate": 0.99,
        "cache_hit_rate": 0.5,
        "ttft_p90_s": 5,
        "output_tps_p10": 20,
        "weighted": 8000,
    }
    assert tuple(Weights().model_dump().values()) == (16.796, 2.799, 0.56)
