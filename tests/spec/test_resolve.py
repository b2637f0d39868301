from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.errors import SpaceError
from tuner.spec import (
    Context,
    Deployment,
    Hardware,
    SearchSpace,
    baseline,
    enumerate_points,
    load_space,
    resolve,
    violations,
)

Build = Callable[..., SearchSpace]
On = Callable[..., Context]


def deployed(space: SearchSpace, context: Context, **changes: Any) -> Deployment:
    return resolve(space, {**baseline(space, context), **changes}, context)


def argv(space: SearchSpace, context: Context, **changes: Any) -> str:
    return " ".join(deployed(space, context, **changes).argv)


FORMS = """
engine:
  recipe: cpu
  model: {make: tiny-hybrid, seed: 3}
  served_name: my/model
  flags:
    --max-model-len: 32768
    enforce_eager: true
    --quoted: "8192"
    --negative: -1
    --dashed: "-x"
    --infinite: .inf
    --listed: {list: [a, 2], join: comma}
    --spaced: {list: [1, 2], join: space}
    --repeated: {list: [x, "-y"], join: repeat}
    --object: {b: [1, {c: null}], a: true}
    --text-object: '{"level": 3}'
    --no-feature: true
  env: {B: 1, A: text, SECRET: {from_env: OUTSIDE}, EMPTY: ""}
parameters:
  text: {flag: --text, choices: [auto, "4", -2, null], baseline: auto}
"""


def test_fixed_values_of_every_form(build: Build, context: On) -> None:
    space = build(FORMS)
    found = deployed(space, context(space))
    assert found.argv == (
        *("--max-model-len", "32768", "--enforce-eager", "--quoted", "8192"),
        *("--negative=-1", "--dashed=-x", "--infinite", "inf", "--listed", "a,2"),
        *("--spaced", "1", "2", "--repeated", "x", "--repeated=-y"),
        *("--object", '{"a":true,"b":[1,{"c":null}]}', "--text-object", '{"level": 3}'),
        *("--no-feature", "--text", "auto"),
    )
    assert found.env == (("A", "text"), ("B", "1"), ("EMPTY", ""))
    assert found.secrets == (("SECRET", "OUTSIDE"),)
    assert found.model == "make:tiny-hybrid:3"
    assert (found.recipe, found.launch, found.served_name) == ("cpu", "process", "my/model")


def test_tuned_values_of_every_form(build: Build, context: On) -> None:
    space = build(
        """
        parameters:
          text: {flag: --text, choices: [auto, "4", -2, null, .inf, 0.9], baseline: auto}
          items: {flag: --items, choices: [[1, 2], [], null], join: comma, baseline: null}
        """.replace("[], ", "[3], ")
    )
    on = context(space)
    assert argv(space, on) == "--text auto"
    assert argv(space, on, text="4") == "--text 4"
    assert argv(space, on, text=-2) == "--text=-2"
    assert argv(space, on, text=None) == ""
    assert argv(space, on, text="inf") == "--text inf"
    assert argv(space, on, text=0.9) == "--text 0.9"
    assert argv(space, on, items=[1, 2]) == "--text auto --items 1,2"


@pytest.mark.parametrize(
    ("join", "wanted"),
    [("comma", "--items a,b"), ("space", "--items a b"), ("repeat", "--items a --items b")],
)
def test_lists_in_their_manner(build: Build, context: On, join: str, wanted: str) -> None:
    space = build(
        f"parameters: {{items: {{flag: --items, choices: [[a, b]], join: {join}, baseline: [a, b]}}}}"
    )
    assert argv(space, context(space)) == wanted


def test_switches(build: Build, context: On) -> None:
    space = build(
        """
        parameters:
          pair: {flag: --enable-prefix-caching, switch: pair, baseline: true}
          bare: {flag: --enforce-eager, switch: bare, baseline: true}
        """
    )
    on = context(space)
    assert argv(space, on) == "--enable-prefix-caching --enforce-eager"
    assert argv(space, on, pair=False, bare=False) == "--no-enable-prefix-caching"


def test_variables(build: Build, context: On) -> None:
    space = build(
        """
        parameters:
          a: {env: A, choices: [1, "x", null, 0.5], baseline: 1}
          b: {env: B, choices: [[1, 2]], join: comma, baseline: [1, 2]}
        """
    )
    on = context(space)
    assert deployed(space, on).env == (("A", "1"), ("B", "1,2"))
    assert deployed(space, on, a=None).env == (("B", "1,2"),)
    assert deployed(space, on, a=0.5).env == (("A", "0.5"), ("B", "1,2"))


LEAVES = """
engine:
  recipe: cpu
  model: {make: tiny-hybrid}
  flags:
    --compilation-config: {level: 3, pass_config: {fuse_norm: true, keep: 1}}
    --max-model-len: 10
parameters:
  fuse:
    flag: -cc
    leaf: pass_config.fuse_norm
    choices: [true, false, null]
    baseline: true
  sizes: {flag: -cc, leaf: sizes, choices: [[1, 2], null], baseline: null}
  other: {flag: --other-config, leaf: a.b, choices: [1, null], baseline: null}
"""


def test_one_leaf_of_a_json_flag_is_tuned_and_the_rest_stays(build: Build, context: On) -> None:
    space = build(LEAVES)
    on = context(space)

    def json_of(**changes: Any) -> Any:
        found = deployed(space, on, **changes).argv
        assert found[0] == "--compilation-config"
        assert found[2:4] == ("--max-model-len", "10")
        return json.loads(found[1])

    assert json_of() == {"level": 3, "pass_config": {"fuse_norm": True, "keep": 1}}
    assert json_of(fuse=False)["pass_config"] == {"fuse_norm": False, "keep": 1}
    assert json_of(fuse=None)["pass_config"] == {"keep": 1}
    assert json_of(sizes=[1, 2])["sizes"] == [1, 2]
    assert json_of() == {"level": 3, "pass_config": {"fuse_norm": True, "keep": 1}}
    assert "--other-config" not in deployed(space, on).argv
    assert deployed(space, on, other=1).argv[-2:] == ("--other-config", '{"a":{"b":1}}')


def test_the_tuned_value_wins_over_the_fixed_one_in_its_place(build: Build, context: On) -> None:
    space = build(
        """
        engine:
          recipe: cpu
          model: {make: tiny-hybrid}
          flags: {--max-num-seqs: 4, --no-enable-prefix-caching: true, --dtype: auto}
          env: {A: "1", B: {from_env: OUT}}
        parameters:
          seqs: {flag: max_num_seqs, choices: [1, null], baseline: 1, when: eager}
          eager: {flag: --enforce-eager, switch: bare, baseline: true}
          cache: {flag: --enable-prefix-caching, switch: pair, baseline: true}
          a: {env: A, choices: ["2", null], baseline: "2"}
          b: {env: B, choices: ["3"], baseline: "3"}
        """
    )
    on = context(space)
    found = deployed(space, on)
    assert " ".join(found.argv) == (
        "--max-num-seqs 1 --enable-prefix-caching --dtype auto --enforce-eager"
    )
    assert (found.env, found.secrets) == ((("A", "2"), ("B", "3")), ())
    assert argv(space, on, seqs=None).startswith("--enable-prefix-caching")
    assert deployed(space, on, a=None).env == (("B", "3"),)
    start = dict(baseline(space, on))
    del start["seqs"]
    without = resolve(space, {**start, "eager": False}, on)
    assert without.argv[:2] == ("--max-num-seqs", "4"), (
        "the fixed value holds where no tuned one is"
    )


def test_one_choice_of_a_bundle_sets_several_things(build: Build, context: On) -> None:
    space = build(
        """
        engine: {recipe: cpu, model: {make: tiny-hybrid}, flags: {--x: 0}, env: {A: "0"}}
        parameters:
          mode:
            bundle:
              safe: {}
              fast:
                flags: {--x: 1, --y: true, --z: {list: [1, 2], join: comma}}
                env: {A: "1", B: {from_env: OUT}}
            baseline: safe
        """
    )
    on = context(space)
    assert deployed(space, on).argv == ("--x", "0")
    found = deployed(space, on, mode="fast")
    assert found.argv == ("--x", "1", "--y", "--z", "1,2")
    assert (found.env, found.secrets) == ((("A", "1"),), (("B", "OUT"),))


def test_files_are_given_by_their_path_and_known_by_their_content(
    build: Build, context: On, tmp_path: Path
) -> None:
    (tmp_path / "a.jinja").write_text("A")
    (tmp_path / "b.jinja").write_text("B")
    space = build(
        """
        engine:
          recipe: cpu
          model: {make: tiny-hybrid}
          env: {PATH_OF: {file: b.jinja}}
        parameters:
          template:
            flag: --chat-template
            choices: [{file: a.jinja}, {file: b.jinja}, null]
            baseline: {file: a.jinja}
        """
    )
    on = context(space)
    start = baseline(space, on)
    assert start == {"template": {"file": "a.jinja"}}
    found = resolve(space, start, on)
    assert found.argv == ("--chat-template", str(tmp_path / "a.jinja"))
    assert found.env == (("PATH_OF", str(tmp_path / "b.jinja")),)
    assert [path for path, _ in found.files] == [str(tmp_path / n) for n in ("a.jinja", "b.jinja")]
    assert all(len(digest) == 64 for _, digest in found.files)
    assert deployed(space, on, template=None).argv == ()


COMPUTED = """
parameters:
  factor: {choices: [1, 2], baseline: 2}
  impl: {env: IMPL, choices: [native, loop], baseline: native}
  limit: {env: LIMIT, choices: [4, 8], baseline: 4, when: impl == 'loop'}
computed:
  seqs: {flag: --max-num-seqs, value: factor * workload.concurrency}
  half: {flag: --share, value: hardware.memory_gib / 2}
  third: {flag: --third, value: seqs / 4}
  big: {flag: --big, switch: pair, value: seqs > 4}
  leaf: {flag: --object, leaf: a, value: "[seqs, 'x']"}
  list: {env: LIST, join: comma, value: "[1, seqs]"}
  maybe: {flag: --maybe, value: "null if factor == 2 else 'yes'"}
  hangs: {flag: --hangs, value: limit * 2}
"""


def test_computed_values(build: Build, context: On) -> None:
    space = build(COMPUTED)
    on = context(space, memory=64 << 30)
    found = deployed(space, on)
    assert " ".join(found.argv) == (
        '--max-num-seqs 6 --share 32 --third 1.5 --big --object {"a":[6,"x"]}'
    )
    assert dict(found.env) == {"IMPL": "native", "LIST": "1,6"}
    assert argv(space, on, factor=1) == (
        '--max-num-seqs 3 --share 32 --third 0.75 --no-big --object {"a":[3,"x"]} --maybe yes'
    )
    looped = deployed(space, on, impl="loop", limit=8)
    assert looped.argv[-2:] == ("--hangs", "16")


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("{flag: --x, value: factor == 1}", "true needs a switch"),
        ("{flag: --x, value: '[1]'}", "[1] needs a join"),
        ("{flag: --x, switch: bare, value: factor}", "must be true or false, and is 1"),
        ("{env: X, join: comma, value: factor}", "must be a list, and is 1"),
        ("{setting: recipe, value: factor}", "must be text, and is 1"),
        ("{flag: --x, value: 9223372036854775807 + factor}", "64 bits"),
        ("{flag: --x, leaf: a, value: 1e308 * 10 * factor}", "JSON has no inf"),
        ("{flag: --x, value: factor + 'x'}", "needs numbers"),
    ],
)
def test_computed_values_that_no_target_can_carry(build: Build, item: str, said: str) -> None:
    with pytest.raises(SpaceError) as caught:
        build(
            f"parameters:\n  factor: {{choices: [1, 2], baseline: 1}}\ncomputed:\n"
            f"  used: {{flag: --used, value: factor}}\n  c: {item}\n"
        )
    assert said in str(caught.value)
    assert caught.value.line == 5


def test_parts_of_the_engine_can_be_chosen(build: Build, context: On, tmp_path: Path) -> None:
    space = build(
        """
        parameters:
          model: {setting: model, choices: [models/a, /b, "make:tiny-hybrid:7"], baseline: /b}
          recipe: {setting: recipe, choices: [cpu, ./mine], baseline: cpu}
          version: {setting: version, choices: ["0.30", "0.31"], baseline: "0.30"}
        """,
        any_version=True,
    )
    on = context(space)
    found = deployed(space, on)
    assert (found.model, found.recipe, found.version) == ("/b", "cpu", "0.30")
    assert (found.image, found.engine) == (None, "cpu")
    other = deployed(space, on, model="models/a", recipe="./mine")
    assert other.model == str(tmp_path / "models" / "a")
    assert other.recipe == str(tmp_path / "mine")
    assert deployed(space, on, model="make:tiny-hybrid:7").model == "make:tiny-hybrid:7"
    assert space.recipes == ("cpu", str(tmp_path / "mine"))
    assert [model.name for model in space.models] == [
        str(tmp_path / "models" / "a"),
        "/b",
        "make:tiny-hybrid:7",
    ]
    made = space.models[2]
    assert (made.make, made.seed, made.path) == ("tiny-hybrid", 7, None)


def test_an_image_can_be_chosen_where_engines_are_containers(build: Build, context: On) -> None:
    space = build(
        """
        engine: {recipe: cuda, model: {path: /m}, launch: docker}
        parameters:
          image: {setting: image, choices: ["a:1", "a:2"], baseline: "a:1"}
        """
    )
    found = deployed(space, context(space), image="a:2")
    assert (found.recipe, found.image, found.engine) == ("cuda", "a:2", "cuda on a:2")
    assert found.digest != deployed(space, context(space)).digest
    assert [choice.name for choice in space.engines] == ["cuda on a:1", "cuda on a:2"]


def test_rules_speak_against_points(build: Build, context: On) -> None:
    space = build(
        """
        parameters:
          impl: {env: IMPL, choices: [native, loop], baseline: native}
          limit: {env: LIMIT, choices: [4, 8], baseline: 4, when: impl == 'loop'}
          seqs: {flag: --max-num-seqs, choices: [2, 4], baseline: 2}
        computed:
          twice: {value: 2 * seqs}
        rules:
          - {forbid: limit == 8, reason: first}
          - {require: twice < 8, reason: second}
          - {forbid: impl == 'loop' and limit < seqs + 1, reason: third}
        """
    )
    on = context(space)
    start = baseline(space, on)

    def broken(**changes: Any) -> list[str]:
        return [rule.reason for rule in violations(space, {**start, **changes}, on)]

    assert broken() == []
    assert broken(seqs=4) == ["second"]
    assert broken(impl="loop", limit=8) == ["first"]
    assert broken(impl="loop", limit=4, seqs=4) == ["second", "third"]


def test_a_point_of_another_space_has_no_deployment(build: Build, context: On) -> None:
    space = build("")
    with pytest.raises(SpaceError, match="seqs = 3 is not in this search space"):
        resolve(space, {"seqs": 3}, context(space))


@pytest.mark.slow
def test_the_embedded_space_gives_a_deployment_for_every_point() -> None:
    space = load_space(Path("search_spaces/local_cpu.yaml"))
    context = Context.of(space, Hardware(0, 2, 24 << 30))
    digests = {resolve(space, one, context).digest for one in enumerate_points(space, context)}
    assert len(digests) == 3520, "no two points are the same deployment"
