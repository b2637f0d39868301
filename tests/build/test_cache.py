from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.build import build_engine, list_engines, load_recipe, prune
from tuner.build.cache import lock_path, prepare, sweep, users_of
from tuner.build.lock import build_lock
from tuner.errors import UserError

RecipeMaker = Callable[..., Path]


def _unfinished(cache: Path, name: str) -> Path:
    root = cache / "engines" / name
    (root / "venv").mkdir(parents=True)
    (root / "venv" / "half").write_bytes(b"x" * 10_000)
    return root


def test_what_dead_builds_left_is_swept_and_live_ones_are_not(
    make_recipe: RecipeMaker, cache: Path
) -> None:
    engine = build_engine(load_recipe(make_recipe()), cache=cache)
    dead, live = (_unfinished(cache, name) for name in ("dead-1", "live-2"))
    with build_lock(lock_path(live)):
        assert sweep(cache) == [dead]
    assert live.is_dir()
    assert engine.root.is_dir()


def test_the_list_says_what_state_each_is_in(make_recipe: RecipeMaker, cache: Path) -> None:
    engine = build_engine(load_recipe(make_recipe()), cache=cache)
    dead, live = _unfinished(cache, "a-dead"), _unfinished(cache, "b-live")
    with build_lock(lock_path(live)):
        entries = list_engines(cache)
    assert [entry.path for entry in entries] == [dead, live, engine.root]
    assert [entry.building for entry in entries] == [False, True, False]
    assert [entry.engine for entry in entries] == [None, None, engine]
    assert entries[0].size >= 10_000
    assert all(0 <= entry.age_s < 60 for entry in entries)


def test_no_cache_is_an_empty_list(cache: Path) -> None:
    assert list_engines(cache) == ()


@pytest.mark.slow
def test_pruning_keeps_what_is_wanted_and_what_runs(make_recipe: RecipeMaker, cache: Path) -> None:
    old = build_engine(load_recipe(make_recipe()), cache=cache)
    used = build_engine(load_recipe(make_recipe(files={"a": "1"})), cache=cache)
    new = build_engine(load_recipe(make_recipe(files={"a": "2"})), cache=cache)
    server = subprocess.Popen(["/bin/sleep", "60"], cwd=used.root)
    try:
        assert users_of(used.root) == (server.pid,)
        removed = prune(cache, keep={new.digest})
    finally:
        server.kill()
        server.wait()
    assert [entry.engine for entry in removed] == [old]
    assert used.root.is_dir()
    assert new.root.is_dir()


def test_a_cache_that_is_a_file_is_the_users_to_mend(tmp_path: Path) -> None:
    (tmp_path / "engines").write_text("")
    with pytest.raises(UserError, match="TUNER_CACHE"):
        prepare(tmp_path)
