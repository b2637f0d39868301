from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from enginex.native import build as module
from enginex.native.build import BuildFailed, build, library_path, main


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path


def script(folder: Path, text: str) -> str:
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_the_name_holds_the_digest_of_the_sources(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = library_path()
    assert before.parent == prefix / "lib" / "enginex"
    monkeypatch.setattr(module, "_SOURCES", ("kernel.h",))
    assert library_path() != before


def test_a_library_that_is_there_is_not_built_again(prefix: Path) -> None:
    library_path().parent.mkdir(parents=True)
    library_path().write_bytes(b"there")
    assert build("/no/such/compiler") == library_path()
    with pytest.raises(BuildFailed):
        build("/no/such/compiler", force=True)
    assert library_path().read_bytes() == b"there"


def test_no_compiler(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(
        BuildFailed, match=r"no C\+\+ compiler was found \(looked for c\+\+, g\+\+, clang\+\+\)"
    ):
        build()


def test_a_failing_compiler_is_quoted_and_nothing_is_left(
    prefix: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = script(prefix, "echo 'kernel.cpp:1: error: no such header' >&2; exit 3")
    assert main(["--compiler", failing]) == 1
    said = capsys.readouterr().err
    assert said.startswith("[enginex] error: the compiled kernel is not available: ")
    assert "exited with 3:\nkernel.cpp:1: error: no such header" in said
    assert list((prefix / "lib" / "enginex").iterdir()) == []


def test_a_compiler_that_lacks_an_instruction_set_builds_without_it(prefix: Path) -> None:
    """As GCC 9, which does not know AVX512-bf16."""
    log = prefix / "asked"
    fake = script(
        prefix,
        f"""echo "$*" >> {log}
case "$*" in *-fsyntax-only*) case "$*" in *-mavx512bf16*) exit 1;; *) exit 0;; esac;; esac
while [ $# -gt 1 ]; do shift; done; echo made > "$1" """,
    )
    build(fake)
    asked = log.read_text()
    assert "-DENGINEX_ISA=plain" in asked
    if platform.machine() == "x86_64":
        assert "-DENGINEX_ISA=avx512 " in asked
        assert "-DENGINEX_HAS_avx512 " in asked
        assert "ENGINEX_ISA=avx512bf16" not in asked
        assert "ENGINEX_HAS_avx512bf16" not in asked


def test_a_new_library_replaces_the_old(prefix: Path) -> None:
    folder = library_path().parent
    folder.mkdir(parents=True)
    (folder / "libenginex-000000000000.so").write_bytes(b"of other sources")
    fake = script(prefix, 'while [ $# -gt 1 ]; do shift; done; echo made > "$1"')
    made = build(fake)
    assert made == library_path()
    assert [p.name for p in folder.iterdir()] == [made.name]


def test_a_library_that_does_not_load_is_a_clear_error(
    prefix: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from enginex.native import library

    library.load.cache_clear()
    fake = script(prefix, 'while [ $# -gt 1 ]; do shift; done; echo made > "$1"')
    try:
        assert main(["--compiler", fake]) == 1
    finally:
        library.load.cache_clear()
    assert "cannot be loaded" in capsys.readouterr().err
