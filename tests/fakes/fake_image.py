"""The fake server as a container image: Debian's Python, the fake, and the one library it needs."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tests.conftest import FAKE

BASE = "debian:bookworm-slim"  # the base that .ci/docker-up makes; it has Python 3.11
SERVER = ("python3", "/fake/fake_vllm.py")
_DOCKERFILE = f"""\
FROM {BASE}
LABEL tuner.tests=fake
COPY . /fake
RUN ["python3", "-m", "pip", "install", "--quiet", "--no-index", "--break-system-packages", \
"--find-links", "/fake", "setproctitle"]
CMD []
"""


@cache
def fake_image() -> str:
    """The image's name; built once for each content of the fake."""
    wanted = f"setproctitle=={version('setproctitle')}"
    others = ("fake_answers.py", "fake_counts.py", "fake_leaks.py")
    files = [FAKE, *(FAKE.with_name(name) for name in others)]
    parts = [*(file.read_bytes() for file in files), _DOCKERFILE.encode(), wanted.encode()]
    content = hashlib.sha256(b"".join(parts)).hexdigest()
    name = f"tuner-tests/fake:{content[:12]}"
    if _docker("image", "inspect", name).returncode == 0:
        return name
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        for file in files:
            shutil.copy(file, context)
        (context / "Dockerfile").write_text(_DOCKERFILE)
        _download(wanted, context)
        built = _docker("build", "--quiet", "--network", "none", "--tag", name, folder)
        assert built.returncode == 0, built.stderr
    return name


def _download(wanted: str, folder: Path) -> None:
    machine = platform.machine()
    tags = [
        f"--platform={kind}_{machine}"
        for kind in ("manylinux2014", "manylinux_2_17", "manylinux_2_28")
    ]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
         "--python-version=3.11", "--implementation=cp", *tags, f"--dest={folder}", wanted],
        check=True,
    )  # fmt: skip


def _docker(*words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DOCKER_BUILDKIT": "0"}
    return subprocess.run(["docker", *words], env=env, capture_output=True, text=True, check=False)
