"""An engine that is ready to serve, and the manifest that proves it was built to the end."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tuner.build.recipe import Container, KvCache
from tuner.files import write_atomic

MANIFEST = "engine.json"
_FORMAT = 1
_FEATURE_STARTS = ("avx", "amx", "fma", "f16c", "sse4", "asimd", "sve", "bf16", "i8mm")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What an engine is made of, for comparing results and for reports.

    Attributes:
        python: Version of its interpreter.
        vllm: Version of vLLM, or None where it has none.
        torch: Version of torch, or None where it has none.
        packages: Every installed distribution, name and version, in the order of the names.
        cpu: Model name of this machine's processor.
        cpu_features: Its vector instruction sets, which decide the kernels that torch picks.
        image: Identity of the container image, or None for an environment on this machine.
    """

    python: str
    vllm: str | None
    torch: str | None
    packages: tuple[tuple[str, str], ...]
    cpu: str
    cpu_features: tuple[str, ...]
    image: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The fingerprint as JSON-ready data."""
        return asdict(self) | {"packages": dict(self.packages)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Fingerprint:
        """The fingerprint that :meth:`as_json` wrote."""
        return cls(
            python=data["python"],
            vllm=data["vllm"],
            torch=data["torch"],
            packages=tuple(sorted(data["packages"].items())),
            cpu=data["cpu"],
            cpu_features=tuple(data["cpu_features"]),
            image=data["image"],
        )


@dataclass(frozen=True, slots=True)
class Engine:
    """A finished engine.

    Attributes:
        recipe: Name of its recipe.
        digest: Its key: recipe files, sources and base.
        kind: ``venv``, ``image`` or ``existing``.
        root: Its folder in the cache (manifest, environment, sources).
        python: Its interpreter: a path on this machine, or inside the image.
        server: The command that starts the server, before any flag.
        env: Environment variables that serving needs, in the order of the names.
        fingerprint: What it is made of.
        image: The image to run, or None where it runs as a process.
        container: What a container of it needs from its host.
        kv_cache: How it allots its KV cache.
        built_in_s: Seconds that its building took.
        size: Bytes that it takes on disk.
    """

    recipe: str
    digest: str
    kind: str
    root: Path
    python: Path
    server: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    fingerprint: Fingerprint
    image: str | None = None
    container: Container = field(default_factory=Container, hash=False)
    kv_cache: KvCache = field(default_factory=KvCache)
    built_in_s: float = 0.0
    size: int = 0

    def as_json(self) -> dict[str, Any]:
        """The engine as JSON-ready data; :meth:`from_json` reads it back."""
        return {
            "format": _FORMAT,
            "recipe": self.recipe,
            "digest": self.digest,
            "kind": self.kind,
            "root": str(self.root),
            "python": str(self.python),
            "server": list(self.server),
            "env": dict(self.env),
            "fingerprint": self.fingerprint.as_json(),
            "image": self.image,
            "container": self.container.model_dump(mode="json"),
            "kv_cache": self.kv_cache.model_dump(mode="json"),
            "built_in_s": self.built_in_s,
            "size": self.size,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Engine:
        """The engine that :meth:`as_json` wrote.

        Raises:
            ValueError: When another version of tuner wrote it in another form.
        """
        if data.get("format") != _FORMAT:
            raise ValueError(f"an engine of format {data.get('format')!r}, not {_FORMAT}")
        return cls(
            recipe=data["recipe"],
            digest=data["digest"],
            kind=data["kind"],
            root=Path(data["root"]),
            python=Path(data["python"]),
            server=tuple(data["server"]),
            env=tuple(sorted(data["env"].items())),
            fingerprint=Fingerprint.from_json(data["fingerprint"]),
            image=data["image"],
            container=Container.model_validate_json(json.dumps(data["container"])),
            # An engine that was built before recipes could say this said nothing.
            kv_cache=KvCache.model_validate_json(json.dumps(data.get("kv_cache", {}))),
            built_in_s=data["built_in_s"],
            size=data["size"],
        )


def write_manifest(engine: Engine) -> None:
    """Say that an engine is finished: the last act of its building.

    Everything else reaches the disk first, so that a power cut cannot leave the word without the deed.
    """
    os.sync()
    write_atomic(
        engine.root / MANIFEST, json.dumps(engine.as_json(), indent=1, sort_keys=True) + "\n"
    )


def read_manifest(root: Path) -> Engine | None:
    """The engine in a folder, or None when it was not finished, was moved, or lost its interpreter."""
    try:
        engine = Engine.from_json(json.loads((root / MANIFEST).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if engine.root != root:
        return None  # an environment has its own path written all over it: a moved one does not run
    if engine.image is None and not os.access(engine.python, os.X_OK):
        return None
    return engine


def cpu_identity() -> tuple[str, tuple[str, ...]]:
    """This machine's processor: its name, and its vector instruction sets in order."""
    model, features = platform.processor() or platform.machine(), set[str]()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return model, ()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            model = value.strip()
        elif key.strip() in {"flags", "Features"}:
            features = {name for name in value.split() if name.startswith(_FEATURE_STARTS)}
    return model, tuple(sorted(features))
