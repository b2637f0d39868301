"""Build the compiled kernel: ``python -m enginex.native.build``.

One C++ file is compiled once for each instruction set and linked into one library, which picks at run time. That
takes a C++17 compiler with OpenMP and some seconds, and no torch headers. The library goes to
``<environment>/lib/enginex/``, under a name that holds the digest of its sources, so that a library of other
sources is never loaded. Without it, enginex works and only the variant ``compiled`` is missing.

The library is not linked with an OpenMP runtime: it uses the one that torch has loaded, as two of them in one
process would start twice as many threads as there are cores.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from enginex.errors import EnginexError

__all__ = ["BuildFailed", "build", "library_path", "main"]

_HERE = Path(__file__).parent
_SOURCES = ("kernel.h", "kernel.cpp", "dispatch.cpp")
_COMMON = ("-std=c++17", "-fPIC", "-fno-math-errno", "-fvisibility=hidden", "-Wall", "-Wextra")
_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq")
_ISAS = {
    "x86_64": {
        "avx512bf16": (*_AVX512, "-mavx512bf16"),
        "avx512": _AVX512,
        "avx2": _AVX2,
        "plain": (),
    },
}
_COMPILERS = ("c++", "g++", "clang++")
_TIMEOUT_S = 300


class BuildFailed(EnginexError):
    """The library could not be built; the message ends with the compiler's last lines."""


def library_path() -> Path:
    """Say where the library of these sources is, or would be."""
    digest = hashlib.sha256()
    for name in (*_SOURCES, "build.py"):
        digest.update((_HERE / name).read_bytes())
    return Path(sys.prefix) / "lib" / "enginex" / f"libenginex-{digest.hexdigest()[:12]}.so"


def build(compiler: str | None = None, *, force: bool = False) -> Path:
    """Build the library unless it is there already.

    Args:
        compiler: A C++ compiler; the default is ``$CXX`` or the first one found.
        force: Build again.

    Returns:
        The library.

    Raises:
        BuildFailed: There is no compiler, it failed, or the folder cannot be written.
    """
    target = library_path()
    if target.exists() and not force:
        return target
    found = _compiler(compiler)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as folder:
            made = _compile(found, Path(folder))
            made.replace(
                target
            )  # in one move: a build that dies half-way leaves nothing that loads
    except OSError as error:
        raise BuildFailed(f"{target.parent} cannot be written: {error.strerror}") from error
    for old in target.parent.glob("libenginex-*.so"):
        if old != target:
            old.unlink(missing_ok=True)
    return target


def _compiler(asked: str | None) -> str:
    wanted = asked or os.environ.get("CXX")
    names = (wanted,) if wanted else _COMPILERS
    for name in names:
        found = shutil.which(name)
        if found is not None:
            return found
    raise BuildFailed(
        f"no C++ compiler was found (looked for {', '.join(names)}); install one, such as Debian's g++, or go on "
        "without the variant 'compiled'"
    )


def _compile(compiler: str, folder: Path) -> Path:
    isas = {name: flags for name, flags in _isas().items() if _takes(compiler, flags)}
    isas.setdefault("plain", ())
    jobs = [
        [
            *_COMMON,
            "-O3",
            "-fopenmp",
            f"-DENGINEX_ISA={isa}",
            *flags,
            "-c",
            str(_HERE / "kernel.cpp"),
        ]
        for isa, flags in isas.items()
    ]
    known = [f"-DENGINEX_HAS_{isa}" for isa in isas]
    jobs.append([*_COMMON, "-O2", *known, "-c", str(_HERE / "dispatch.cpp")])
    objects = [str(folder / f"{number}.o") for number in range(len(jobs))]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        list(
            pool.map(
                lambda job: _run([compiler, *job[0], "-o", job[1]]), zip(jobs, objects, strict=True)
            )
        )
    made = folder / "libenginex.so"
    _run([compiler, "-shared", *objects, "-o", str(made)])
    return made


def _isas() -> dict[str, tuple[str, ...]]:
    """List this machine's instruction sets with their flags; ``plain`` is always there."""
    other = {"plain": ("-mcpu=native",) if platform.machine() == "aarch64" else ()}
    return _ISAS.get(platform.machine(), other)


def _takes(compiler: str, flags: Sequence[str]) -> bool:
    """Whether a compiler knows these flags; an old one does without the newest instruction sets."""
    if not flags:
        return True
    words = [compiler, *flags, "-x", "c++", "-fsyntax-only", os.devnull]
    done = subprocess.run(words, capture_output=True, timeout=_TIMEOUT_S, check=False)
    return done.returncode == 0


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BuildFailed(
            f"the compiler took longer than {_TIMEOUT_S} s: {' '.join(command)}"
        ) from error
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        last = "\n".join((errors or done.stderr.splitlines())[-8:])
        raise BuildFailed(f"{' '.join(command)} exited with {done.returncode}:\n{last}")


def main(argv: Sequence[str] | None = None) -> int:
    """Build the library and load it once; 0 when it works, 1 with a clear message when it does not."""
    parser = argparse.ArgumentParser(
        prog="python -m enginex.native.build", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--compiler", help="a C++17 compiler with OpenMP (default: $CXX, else c++, g++ or clang++)"
    )
    parser.add_argument(
        "--force", action="store_true", help="build again even if the library is there"
    )
    options = parser.parse_args(argv)
    began = time.monotonic()
    try:
        made = build(options.compiler, force=options.force)
        from enginex.native import library  # noqa: PLC0415 - torch, which the build itself does without

        kernels = library.load()
    except EnginexError as error:
        print(f"[enginex] error: the compiled kernel is not available: {error}", file=sys.stderr)
        return 1
    print(f"[enginex] native built={made} isa={kernels.isa} seconds={time.monotonic() - began:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
