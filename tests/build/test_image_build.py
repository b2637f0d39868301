"""Images built for real; needs the daemon and the base image of ``.ci/docker-up``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tuner.build import (
    Engine,
    Progress,
    build_engine,
    list_engines,
    load_recipe,
    make_model,
    prune,
    verify_engine,
)
from tuner.build.dockercli import docker, image_id
from tuner.build.image import LABEL
from tuner.errors import BuildFailed, UserError

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

RecipeMaker = Callable[..., Path]
BASE = "debian:bookworm-slim"
ROOT = Path(__file__).resolve().parents[2]
HEAD = f"""\
format: 1
name: fake-image
about: an image for tests
base:
  image: {{ref: "{BASE}", disk: 1MiB, packages: [libnuma1]}}
server: ["{{python}}", "-m", "http.server"]
env: {{SERVING: "a $b"}}
"""
STEPS = """
steps:
  - {name: library, do: copy, file: data.txt, to: "{site}/fakelib.py"}
  - {name: said, do: run, argv: ["sh", "-c", "echo $SERVING > /said"]}
checks:
  - {name: library, do: import, module: fakelib, version: "1.2"}
  - {name: said, do: text, file: /said, has: a $b}
  - {name: later, do: file, file: /later, when: verify, mend: touch it}
"""


@pytest.fixture(autouse=True)
def no_image_left() -> Iterator[None]:
    """Every image that a test made, tagged or not, is gone afterwards."""
    before = set(_ours())
    yield
    for image in set(_ours()) - before:
        docker("image", "rm", "--force", image)


def _containers() -> set[str]:
    return set(docker("ps", "--all", "--quiet", "--filter", f"label={LABEL}")[1].split())


def _ours() -> list[str]:
    return docker("image", "ls", "--all", "--quiet", "--no-trunc", "--filter", f"label={LABEL}")[
        1
    ].split()


@pytest.fixture
def build(make_recipe: RecipeMaker, cache: Path) -> Callable[..., Engine]:
    def call(body: str = STEPS, *, head: str = HEAD, **files: str) -> Engine:
        recipe = load_recipe(
            make_recipe(body, head=head, files={"data.txt": "__version__ = '1.2'\n", **files})
        )
        return build_engine(recipe, cache=cache, launch="docker")

    return call


def test_an_image_is_built_checked_and_kept(
    build: Callable[..., Engine], make_recipe: RecipeMaker, cache: Path
) -> None:
    engine = build()
    assert engine.image == f"tuner/fake-image:{engine.digest[:12]}"
    assert engine.fingerprint.image == image_id(engine.image)
    assert engine.fingerprint.python.startswith("3.11")
    assert engine.size > 50e6
    assert build() == engine
    results = verify_engine(engine, load_recipe(cache.parent / "fake-recipe"))
    assert [(r.name, r.ok) for r in results] == [
        ("library", True),
        ("said", True),
        ("later", False),
    ]
    assert [entry.engine for entry in list_engines(cache)] == [engine]


def test_an_image_that_was_removed_is_built_again(build: Callable[..., Engine]) -> None:
    engine = build()
    docker("image", "rm", "--force", str(engine.image))
    again = build()
    assert again.digest == engine.digest
    assert again.fingerprint.image == image_id(str(again.image))


def test_pruning_takes_the_image_along_but_not_from_under_a_container(
    build: Callable[..., Engine], cache: Path
) -> None:
    engine = build()
    _, container = docker("run", "--detach", str(engine.image), "sleep", "60")
    assert prune(cache, keep=()) == ()
    docker("rm", "--force", container.strip())
    assert [entry.engine for entry in prune(cache, keep=())] == [engine]
    assert image_id(str(engine.image)) is None


def test_a_step_that_fails_is_named_and_leaves_no_image(
    build: Callable[..., Engine], cache: Path
) -> None:
    before = set(_ours())
    body = (
        "steps:\n"
        "  - {name: fine, do: run, argv: ['true']}\n"
        "  - {name: broken, do: run, argv: [sh, -c, 'echo it is broken; exit 7']}\n"
        "  - {name: never, do: run, argv: ['true']}\n"
    )
    with pytest.raises(BuildFailed) as caught:
        build(body)
    assert caught.value.step == "broken"
    assert "it is broken" in caught.value.tail
    assert "sh ended with status 7" in caught.value.tail
    assert "never" not in caught.value.log.read_text()
    assert set(_ours()) == before
    assert [path for path in (cache / "engines").iterdir() if path.is_dir()] == []


def test_a_patch_that_does_not_apply_stops_the_image(build: Callable[..., Engine]) -> None:
    body = (
        "steps:\n  - {name: tuned, do: patch, targets: [/etc/debian_version], before: [no such line],"
        " edits: [{old: a, new: b}], verify: b}\n"
    )
    with pytest.raises(BuildFailed) as caught:
        build(body)
    assert caught.value.step == "tuned"
    assert "precondition not met: no line 'no such line'" in caught.value.tail
    assert caught.value.mend is not None
    assert "another version" in caught.value.mend


def test_a_missing_wheel_is_named_with_line_and_mend(
    make_recipe: RecipeMaker, cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "house").mkdir()
    folder = make_recipe(
        "steps:\n  - {name: packages, do: pip, requirements: lock.txt}\n",
        head=HEAD,
        files={"lock.txt": "# pinned\nsome-thing==1.0\n"},
    )
    with pytest.raises(BuildFailed) as caught:
        build_engine(
            load_recipe(folder), cache=cache, launch="docker", wheelhouse=tmp_path / "house"
        )
    assert caught.value.step == "packages"
    assert "lock.txt:2: some-thing==1.0: no wheel in the wheelhouse" in caught.value.tail
    assert "pip download" in (caught.value.mend or "")


def test_a_check_that_fails_takes_the_image_back(build: Callable[..., Engine]) -> None:
    before = set(_ours())
    with pytest.raises(BuildFailed, match="put it there"):
        build("checks:\n  - {name: it, do: file, file: /nothere, mend: put it there}\n")
    assert set(_ours()) == before


def test_a_build_that_is_interrupted_leaves_nothing(make_recipe: RecipeMaker, cache: Path) -> None:
    before, running = set(_ours()), _containers()
    folder = make_recipe("steps:\n  - {name: slow, do: run, argv: [sleep, '120']}\n", head=HEAD)

    def stop(progress: Progress) -> None:
        if progress.step == "slow":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_engine(load_recipe(folder), cache=cache, launch="docker", progress=stop)
    assert set(_ours()) == before
    assert _containers() == running


def test_a_base_image_that_is_not_to_be_had_is_the_users_to_mend(
    build: Callable[..., Engine],
) -> None:
    with pytest.raises(UserError, match="TUNER_BASE_IMAGE"):
        build(head=HEAD.replace(BASE, "localhost:1/none/such:1"))


def test_an_environment_inside_an_image(build: Callable[..., Engine]) -> None:
    head = HEAD.replace("disk: 1MiB", "disk: 1MiB, venv: true")
    engine = build(
        "steps:\n  - {name: library, do: copy, file: data.txt, to: '{site}/fakelib.py'}\n"
        "checks:\n  - {name: library, do: import, module: fakelib}\n",
        head=head,
    )
    assert str(engine.python) == "/opt/tuner-engine/venv/bin/python"
    assert engine.server[0] == "/opt/tuner-engine/venv/bin/python"


def test_an_image_that_is_there_is_used_as_it_is(make_recipe: RecipeMaker, cache: Path) -> None:
    head = (
        "format: 1\nname: mine\nabout: my image\nbase: {existing: {image: 'debian:bookworm-slim'}}\n"
        "server: ['{python}', '-m', 'http.server']\n"
    )
    recipe = load_recipe(
        make_recipe("checks:\n  - {name: json, do: import, module: json}\n", head=head)
    )
    engine = build_engine(recipe, cache=cache, launch="docker")
    assert engine.image == image_id(BASE)
    assert engine.fingerprint.python.startswith("3.11")
    assert [result.ok for result in verify_engine(engine, recipe)] == [True]
    assert build_engine(recipe, cache=cache, launch="docker") == engine
    prune(cache, keep=())
    assert image_id(BASE) is not None


def test_a_running_container_stands_for_its_image(
    make_recipe: RecipeMaker, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, container = docker("run", "--detach", BASE, "sleep", "60")
    monkeypatch.setenv("TUNER_ENGINE_IMAGE", container.strip())
    head = "format: 1\nname: mine\nabout: x\nbase: {existing: {}}\nserver: ['{python}']\n"
    try:
        engine = build_engine(load_recipe(make_recipe(head=head)), cache=cache, launch="docker")
    finally:
        docker("rm", "--force", container.strip())
    assert engine.image == image_id(BASE)


def test_a_model_is_made_inside_an_image(
    build: Callable[..., Engine], cache: Path, tmp_path: Path
) -> None:
    makers = tmp_path / "data" / "engine" / "models"
    makers.mkdir(parents=True)
    code = "import os, sys\nos.mkdir(sys.argv[1])\nopen(sys.argv[1] + '/weights', 'w').write(sys.argv[2])\n"
    (makers / "thing.py").write_text(code)
    model = make_model(build(), "thing", seed=3, cache=cache, data_dir=tmp_path / "data")
    assert (model / "weights").read_text() == "--seed=3"


def test_the_bi100_recipe_on_a_base_of_the_vendors_shape(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vendor's image is not to be had here: a stand-in has the files that the recipe changes."""
    base = _stand_in(tmp_path, wheels := tmp_path / "wheels")
    monkeypatch.setenv("TUNER_BASE_IMAGE", base)
    recipe = load_recipe("bi100")
    try:
        engine = build_engine(recipe, cache=cache, launch="docker", wheelhouse=wheels)
        results = {result.name: result.ok for result in verify_engine(engine, recipe)}
        assert dict(engine.env)["PYTHONPATH"].startswith(
            "/usr/local/corex/lib/python3/dist-packages:"
        )
        assert {name for name, ok in results.items() if ok} >= {
            "honest-flags", "honest-flags-lib64", "solver", "chat-template", "enginex",
        }  # fmt: skip
        assert not results["solve-triangular"]  # there is no torch in the stand-in
        _, text = docker("run", "--rm", str(engine.image), "cat", _ARGS.format("lib64"))
        assert "enforce_eager=self.enforce_eager," in text
        assert "=True," not in text
    finally:
        docker("image", "rm", "--force", base)


def test_the_cuda_recipe_says_what_is_missing_where_there_is_no_device(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM's image is not to be had here: on a base without vLLM all is built, and verify says what lacks."""
    monkeypatch.setenv("TUNER_BASE_IMAGE", BASE)
    _build_tools("cuda", wheels := tmp_path / "wheels")
    recipe = load_recipe("cuda")
    engine = build_engine(recipe, cache=cache, launch="docker", wheelhouse=wheels)
    try:
        assert engine.container.resource == "nvidia.com/gpu"
        results = {result.name: result for result in verify_engine(engine, recipe)}
        assert results["enginex"].ok
        assert results["plugin"].ok
        for name in ("torch", "vllm", "server", "enginex-kernels"):
            assert not results[name].ok
        assert "No module named 'vllm'" in results["vllm"].detail
        assert "NVIDIA container toolkit" in (results["torch"].mend or "")
        if (
            "devices" in results
        ):  # docker has no runtime for them; where it has, torch says that there are none
            assert "NVIDIA container toolkit" in (results["devices"].mend or "")
    finally:
        docker("image", "rm", "--force", str(engine.image))


_ARGS = "/usr/local/corex/{}/python3/dist-packages/vllm/engine/arg_utils.py"


def _stand_in(place: Path, wheels: Path) -> str:
    """A base image of the vendor's shape, and a wheelhouse with the build tools of the recipe."""
    context = place / "stand-in"
    context.mkdir()
    (context / "arg_utils.py").write_text(
        "def create(self):\n    return dict(\n        enforce_eager=True,\n        max=1,\n    ), dict(\n"
        "        disable_custom_all_reduce=True,\n    )\n"
    )
    (context / "Dockerfile").write_text(
        f"FROM {BASE}\n"
        f"COPY arg_utils.py {_ARGS.format('lib')}\nCOPY arg_utils.py {_ARGS.format('lib64')}\n"
        "RUN touch /usr/local/corex/lib64/libcusolver.so.10\n"
    )
    tag = "tuner-test/bi100-stand-in:1"
    status, said = docker("build", "--tag", tag, str(context), merged=True)
    assert status == 0, said
    _build_tools("bi100", wheels)
    return tag


def _build_tools(recipe: str, wheels: Path) -> None:
    """Download what builds enginex into a wheelhouse, for the Python of the base image."""
    python = shutil.which("python3.11") or "python3"
    lock = ROOT / "engine" / "recipes" / recipe / "build-tools.txt"
    options = ["--quiet", "--no-deps", "--dest", str(wheels), "--requirement", str(lock)]
    subprocess.run([python, "-m", "pip", "download", *options], check=True)
