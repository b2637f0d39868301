from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from enginex.afterimport import after_import


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    folder = tmp_path / "made_for_this_test"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "inner.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder.name
    for name in [folder.name, f"{folder.name}.inner"]:
        sys.modules.pop(name, None)


def test_runs_once_when_the_module_is_imported_and_not_before(package: str) -> None:
    seen: list[ModuleType] = []
    after_import(f"{package}.inner", seen.append)
    after_import(f"{package}.inner", seen.append)
    importlib.import_module(package)
    assert seen == []
    module = importlib.import_module(f"{package}.inner")
    assert seen == [module, module]
    assert module.value == 1
    importlib.import_module(f"{package}.inner")
    importlib.reload(module)
    assert len(seen) == 2


def test_runs_at_once_when_the_module_is_there(package: str) -> None:
    module = importlib.import_module(f"{package}.inner")
    seen: list[ModuleType] = []
    after_import(f"{package}.inner", seen.append)
    assert seen == [module]


def test_a_patch_is_in_place_for_whoever_imports_by_name(package: str) -> None:
    def patch(module: ModuleType) -> None:
        module.value = 2  # type: ignore[attr-defined] - made above

    after_import(f"{package}.inner", patch)
    scope: dict[str, object] = {}
    exec(f"from {package}.inner import value", scope)  # noqa: S102 - the very statement that vLLM uses
    assert scope["value"] == 2


def test_the_module_keeps_its_own_loader(package: str) -> None:
    after_import(f"{package}.inner", lambda _: None)
    module = importlib.import_module(f"{package}.inner")
    assert module.__spec__ is not None
    assert type(module.__spec__.loader).__name__ == "SourceFileLoader"
    assert module.__loader__ is module.__spec__.loader


def test_a_module_that_does_not_exist_still_does_not() -> None:
    after_import("made_for_this_test_missing", lambda _: None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("made_for_this_test_missing")
