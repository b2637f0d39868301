from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.build import Engine, Progress, build_engine, load_recipe, verify_engine
from tuner.build.cache import lock_path
from tuner.build.engine import MANIFEST
from tuner.errors import BuildFailed, NoSpaceLeft, RecipeError, UserError

RecipeMaker = Callable[..., Path]

pytestmark = pytest.mark.slow

STEPS = """
steps:
  - name: one
    do: run
    argv: ["{python}", "{recipe}/step.py", "{root}/one"]
  - name: two
    do: copy
    file: data.txt
    to: "{site}/fakelib.py"
  - name: three
    do: patch
    targets: ["{site}/fakelib.py", "{site}/../site-packages/fakelib.py"]
    before: ["EAGER = True"]
    edits:
      - {old: "EAGER = True", new: "EAGER = False"}
    verify: "EAGER = False"
  - name: four
    do: link
    link: "{root}/solver.so"
    to: ["{root}/none.so*", "{site}/fake*.py"]
checks:
  - {name: library, do: import, module: fakelib, version: "1.2"}
  - {name: patched, do: text, file: "{site}/fakelib.py", has: "EAGER = False"}
  - {name: ends, do: line-ends, files: ["{recipe}/**/*.py"]}
  - {name: solver, do: file, file: "{root}/solver.so"}
"""
STEP = """
import os, sys, time
if os.environ.get("TUNER_TEST_HANG"):
    open(os.environ["TUNER_TEST_HANG"], "w").write(str(os.getpid()))
    time.sleep(60)
open(sys.argv[1], "a").write("built\\n")
print("step one is done")
"""
LIBRARY = "__version__ = '1.2+local'\nEAGER = True\n"
FILES = {"step.py": STEP, "data.txt": LIBRARY}

BUILDER = """
import sys
from pathlib import Path
from tuner.build import build_engine, load_recipe

build_engine(load_recipe(Path(sys.argv[1])), cache=Path(sys.argv[2]))
"""


@pytest.fixture
def folder(make_recipe: RecipeMaker) -> Path:
    return make_recipe(STEPS, files=FILES)


def _build(folder: Path, cache: Path, heard: list[Progress] | None = None) -> Engine:
    report = heard.append if heard is not None else (lambda _progress: None)
    return build_engine(load_recipe(folder), cache=cache, progress=report)


def test_an_engine_is_built_as_its_recipe_says(folder: Path, cache: Path) -> None:
    heard: list[Progress] = []
    engine = _build(folder, cache, heard)
    assert engine.root.parent == cache / "engines"
    assert engine.root.name == f"fake-{engine.digest[:12]}"
    assert engine.server == (str(engine.python), "-m", "http.server")
    assert engine.env == (("FAKE_SERVING", "1"),)
    assert (engine.root / "one").read_text() == "built\n"
    assert (engine.root / "solver.so").resolve().name == "fakelib.py"
    code = "import fakelib; print(fakelib.EAGER)"
    ran = subprocess.run([engine.python, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
    assert [result.ok for result in verify_engine(engine, load_recipe(folder))] == [True] * 4
    steps = list(dict.fromkeys(progress.step for progress in heard))
    assert steps == ["environment", "one", "two", "three", "four", "checks"]
    assert {progress.total for progress in heard} == {6}
    assert not (engine.root / "tmp").exists()


def test_it_is_built_once(folder: Path, cache: Path) -> None:
    first = _build(folder, cache)
    heard: list[Progress] = []
    assert _build(folder, cache, heard) == first
    assert heard == []
    assert (first.root / "one").read_text() == "built\n"


def test_a_changed_file_makes_another_engine(folder: Path, cache: Path) -> None:
    first = _build(folder, cache)
    (folder / "data.txt").write_text(LIBRARY + "MORE = 1\n")
    second = _build(folder, cache)
    assert second.digest != first.digest
    assert first.root.is_dir()


def test_a_step_that_fails_is_named_and_leaves_only_its_log(
    make_recipe: RecipeMaker, cache: Path
) -> None:
    code = "import sys; print('mend: plug it in'); sys.exit('it is broken')"
    folder = make_recipe(
        f"steps:\n  - {{name: bad, do: run, argv: ['{{python}}', '-c', \"{code}\"]}}\n"
    )
    with pytest.raises(BuildFailed) as caught:
        _build(folder, cache)
    assert caught.value.step == "bad"
    assert "it is broken" in caught.value.tail
    assert caught.value.mend == "plug it in"
    assert "it is broken" in caught.value.log.read_text()
    assert [path for path in (cache / "engines").iterdir() if path.is_dir()] == []


def test_a_patch_that_does_not_apply_stops_the_build(make_recipe: RecipeMaker, cache: Path) -> None:
    folder = make_recipe(STEPS, files={**FILES, "data.txt": "__version__ = '1.2'\nEAGER = None\n"})
    with pytest.raises(BuildFailed) as caught:
        _build(folder, cache)
    assert caught.value.step == "three"
    assert "no line 'EAGER = True'" in caught.value.tail
    assert caught.value.mend is not None
    assert "another version" in caught.value.mend


def test_a_check_that_fails_is_named_with_its_mend(make_recipe: RecipeMaker, cache: Path) -> None:
    folder = make_recipe(
        "checks:\n"
        "  - {name: fine, do: import, module: json}\n"
        "  - {name: numa, do: library, library: libnothere.so.1, mend: install libnothere}\n"
        "  - {name: dies, do: command, argv: [sh, -c, 'kill -9 $$']}\n"
        "  - {name: later, do: import, module: nothere, when: verify}\n"
    )
    with pytest.raises(BuildFailed) as caught:
        _build(folder, cache)
    assert caught.value.step == "checks"
    assert "numa: " in caught.value.tail
    assert "dies: " in caught.value.tail
    assert "fine" not in caught.value.tail
    assert "later" not in caught.value.tail
    assert caught.value.mend == "install libnothere"


def test_too_little_disk_is_said_before_anything_is_done(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=5 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(NoSpaceLeft, match=r"needs 10.0 MiB .* 5.0 MiB are free"):
        _build(folder, cache)
    assert [path for path in (cache / "engines").iterdir() if path.is_dir()] == []


def test_a_disk_that_fills_up_is_said_as_such(make_recipe: RecipeMaker, cache: Path) -> None:
    code = "raise SystemExit('[Errno 28] No space left on device')"
    folder = make_recipe(
        f"steps:\n  - {{name: big, do: run, argv: ['{{python}}', '-c', \"{code}\"]}}\n"
    )
    with pytest.raises(NoSpaceLeft, match="step 'big'"):
        _build(folder, cache)


def test_a_cache_that_cannot_be_made_is_the_users_to_mend(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="TUNER_CACHE"):
        _build(folder, tmp_path / "file")


def test_a_recipe_for_other_interpreters_is_refused(make_recipe: RecipeMaker, cache: Path) -> None:
    head = "format: 1\nname: fake\nabout: x\nbase: {venv: {pythons: ['3.99'], disk: 1MiB}}\nserver: [x]\n"
    with pytest.raises(RecipeError, match=r"needs Python 3\.99"):
        _build(make_recipe(head=head), cache)


def test_a_report_that_raises_ends_the_build_and_leaves_nothing(folder: Path, cache: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.step == "two":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_engine(load_recipe(folder), cache=cache, progress=stop)
    assert [path for path in (cache / "engines").iterdir() if path.is_dir()] == []


def test_a_manifest_that_was_torn_is_not_believed(folder: Path, cache: Path) -> None:
    engine = _build(folder, cache)
    manifest = engine.root / MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:-40])
    assert _build(folder, cache) == json_equal(engine)
    assert (engine.root / "one").read_text() == "built\n"


def json_equal(engine: Engine) -> Engine:
    """The same engine but for the time that its building took."""
    manifest = json.loads((engine.root / MANIFEST).read_text())
    return Engine.from_json({**engine.as_json(), "built_in_s": manifest["built_in_s"]})


def test_kill_9_at_any_moment_is_never_taken_for_a_finished_build(
    folder: Path, cache: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", BUILDER, str(folder), str(cache)]
    began = time.monotonic()
    subprocess.run(command, env=environment, check=True)
    whole = time.monotonic() - began
    for tenth in (1, 3, 5, 7, 9):
        shutil.rmtree(cache)
        builder = subprocess.Popen(command, env=environment)
        time.sleep(whole * tenth / 10)
        builder.send_signal(signal.SIGKILL)
        builder.wait()
        finished = list(cache.glob(f"engines/*/{MANIFEST}"))
        engine = _build(folder, cache)
        assert (engine.root / "one").read_text() == "built\n"
        assert all(result.ok for result in verify_engine(engine, load_recipe(folder)))
        assert not finished or engine.root == finished[0].parent
        folders = [path for path in (cache / "engines").iterdir() if path.is_dir()]
        assert folders == [engine.root]


def test_a_step_left_by_a_killed_builder_is_waited_for(folder: Path, cache: Path) -> None:
    mark = folder.parent / "hanging"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TUNER_TEST_HANG": str(mark),
    }
    builder = subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(folder), str(cache)], env=environment
    )
    while not (mark.exists() and mark.read_text()):
        time.sleep(0.02)
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    step = int(mark.read_text())

    def waiting(progress: Progress) -> None:
        if progress.step == "waiting" and not freed.is_set():
            assert f"process {builder.pid}" in progress.line
            os.kill(step, signal.SIGKILL)
            freed.set()

    freed = threading.Event()
    engine = build_engine(load_recipe(folder), cache=cache, progress=waiting)
    assert freed.is_set()
    assert (engine.root / "one").read_text() == "built\n"


def test_two_at_once_build_once(folder: Path, cache: Path) -> None:
    heard: list[Progress] = []
    engines: list[Engine] = []

    def build() -> None:
        engines.append(build_engine(load_recipe(folder), cache=cache, progress=heard.append))

    threads = [threading.Thread(target=build) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(engines)) == 1
    assert any(progress.step == "waiting" for progress in heard)
    assert (engines[0].root / "one").read_text() == "built\n"
    assert lock_path(engines[0].root).exists()
