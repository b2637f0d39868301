from __future__ import annotations

from collections.abc import Callable

import pytest

from tuner.errors import SpaceError
from tuner.spec import Context, SearchSpace, enumerate_points, resolve
from tuner.spec.outcomes import outcomes

Build = Callable[..., SearchSpace]
On = Callable[..., Context]

COMPUTED = """
parameters:
  size: {choices: [1, 2, auto], baseline: 1}
  mode: {bundle: {fast: {env: {A: 1}}, safe: {}}, baseline: safe}
  other: {choices: [/d, /e], baseline: /d, when: size == 'auto'}
computed:
  model:
    setting: model
    value: "'/a' if size == 1 else ('make:tiny:3' if mode == 'fast' else ('/b' if size == 2 else other))"
  seen: {env: SEEN, value: mode}
  twice: {env: TWICE, value: "seen if size == 'auto' else mode"}
  number: {env: NUMBER, value: "[1, 2]", join: comma}
"""

CHOSEN = """
parameters:
  where: {env: WHERE, choices: [one, two, three], baseline: one}
  model: {setting: model, choices: [/a, /b], baseline: /a, when: where == 'one'}
  recipe: {setting: recipe, baseline: cpu}
groups:
  g: {points: [{recipe: cuda}, {recipe: cpu}, {recipe: ./mine}], when: where != 'three'}
"""


def test_all_texts_that_a_value_may_come_to_are_known(build: Build) -> None:
    document = build(COMPUTED).document
    assert outcomes(document, "model") == ("/a", "make:tiny:3", "/b", "/d", "/e")
    assert outcomes(document, "size") == ("auto",)
    assert outcomes(document, "mode") == ("fast", "safe")
    assert outcomes(document, "twice") == ("fast", "safe")
    assert outcomes(document, "number") == ()


@pytest.mark.parametrize(
    ("text", "models", "recipes"),
    [
        (COMPUTED, ["make:tiny-hybrid:0", "/a", "make:tiny:3", "/b", "/d", "/e"], ["cpu"]),
        (CHOSEN, ["make:tiny-hybrid:0", "/a", "/b"], ["cpu", "cuda", "MINE"]),
        ("parameters: {m: {setting: model, choices: [/a], baseline: /a}}", ["/a"], ["cpu"]),
    ],
)
def test_every_engine_and_model_of_every_point_is_known_before_anything_is_built(
    build: Build, context: On, text: str, models: list[str], recipes: list[str]
) -> None:
    """What is built and made comes from these lists; a point beyond them could not run."""
    space = build(text)
    on = context(space)
    found = [resolve(space, point, on) for point in enumerate_points(space, on)]
    assert [model.name for model in space.models] == models
    assert {one.model for one in found} <= set(models)
    mine = str(space.source.folder / "mine")
    assert [name.replace(mine, "MINE") for name in space.recipes] == recipes
    assert {one.recipe for one in found} == set(space.recipes)


@pytest.mark.parametrize(
    ("parameters", "engines"),
    [
        ("image: {setting: image, choices: [a, b], baseline: a}", ["cuda on a", "cuda on b"]),
        (
            (
                "own: {choices: [1, 2], baseline: 1}\n"
                "  image: {setting: image, choices: [a, b], baseline: a, when: own == 2}"
            ),
            ["cuda", "cuda on a", "cuda on b"],
        ),
        ("p: {flag: --max-num-seqs, choices: [1, 2], baseline: 1}", ["cuda"]),
    ],
)
def test_every_image_of_every_point_is_known_before_anything_is_built(
    build: Build, context: On, parameters: str, engines: list[str]
) -> None:
    text = "engine: {recipe: cuda, model: {path: /m}, launch: docker}\nparameters:\n  "
    space = build(text + parameters)
    on = context(space)
    found = [resolve(space, point, on) for point in enumerate_points(space, on)]
    assert [choice.name for choice in space.engines] == engines
    assert {one.engine for one in found} == set(engines)


def test_a_computed_model_must_be_one(build: Build) -> None:
    with pytest.raises(SpaceError, match=r"'make:x' is no model"):
        build("computed: {m: {setting: model, value: \"'make:x' if seqs > 1 else '/a'\"}}")
