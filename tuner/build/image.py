"""Builds an engine as a container image, from the same steps as an environment on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path

from tuner.build import cache as store
from tuner.build.digest import engine_digest
from tuner.build.dockercli import (
    data_folder,
    docker,
    image_id,
    inspect,
    require_daemon,
    require_image,
)
from tuner.build.engine import Engine, Fingerprint
from tuner.build.interior import ask, fingerprint_of
from tuner.build.keyed import Site, once
from tuner.build.layout import IMAGE_ROOT, INSIDE, PLAN, lay_out, normalize
from tuner.build.load import Recipe
from tuner.build.process import build_env, tail
from tuner.build.progress import Report
from tuner.build.recipe import ImageBase
from tuner.build.verify import require, results_of
from tuner.quantity import parse_bytes

LABEL = "tuner.engine"
_WHEELS = "/opt/tuner-wheels"
_STEP = re.compile(r"== (?:step \d+ of \d+: )?([\w.-]+)")
_LET_GO_S = 30.0
_TIMEOUT_S = 4 * 3600.0
_INDEX_ARGS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "TUNER_TORCH_INDEX")


def build_image(
    recipe: Recipe,
    base: ImageBase,
    *,
    cache: Path,
    report: Report,
    wheelhouse: Path | None = None,
    base_image: str | None = None,
) -> Engine:
    """The engine of a recipe as an image: the one that the daemon has, or a new one.

    Args:
        recipe: The recipe.
        base: What it says of images.
        cache: The user's cache; the manifest, the build context and the log lie there.
        report: Hears of each step.
        wheelhouse: Folder with wheels; the build then has no network at all.
        base_image: Another base image than the recipe's.

    Raises:
        UserError: When no daemon answers, or the base image is not to be had.
        NoSpaceLeft: When the disk is, or becomes, too full.
        BuildFailed: When a step or a check fails; no image and nothing but the log is left.
    """
    require_daemon()
    ref = base_image or base.ref
    digest = _digest(recipe, require_image(ref))

    def make(site: Site) -> Engine:
        return _build(recipe, base, ref, digest, site, wheelhouse)

    return once(
        store.engine_root(cache, f"{recipe.name}-image", digest),
        cache=cache,
        steps=("image", "checks"),
        space=store.Space(
            parse_bytes(base.disk) + _wheels_size(wheelhouse), data_folder() or cache
        ),
        report=report,
        make=make,
        good=lambda engine: image_id(engine.image or "") == engine.fingerprint.image,
    )


def image_digest(recipe: Recipe, ref: str) -> str | None:
    """The key that this recipe's image has on a base image; None where the base is not here."""
    base_id = image_id(ref)
    return None if base_id is None else _digest(recipe, base_id)


def _digest(recipe: Recipe, base_id: str) -> str:
    return engine_digest(recipe.files_digest, kind="image", base=base_id)


def dockerfile(recipe: Recipe, base: ImageBase, ref: str, digest: str, *, wheels: bool) -> str:
    """The Dockerfile of a recipe, for a context as :func:`lay_out` makes it.

    Every command stands in exec form or alone, so that no exit status is lost.
    """
    lines = [
        f"# Made from the recipe {recipe.name}: change the recipe, not this file.",
        f"FROM {ref} AS base",
    ]
    lines += [
        f'LABEL {LABEL}="{digest}"',
        *(f"ENV {n}={_quote(v)}" for n, v in sorted(recipe.spec.env.items())),
    ]
    if base.packages:
        lines.append(_packages(base.packages))
    lines += ["FROM base AS build"] if base.venv else []
    lines += [_packages(base.build_packages)] if base.build_packages else []
    lines += [f"ARG {name}" for name in _INDEX_ARGS]
    lines += [f"COPY wheels {_WHEELS}"] if wheels else []
    lines += [f"WORKDIR {IMAGE_ROOT}", f"COPY engine {IMAGE_ROOT}"]
    if base.venv:
        lines.append(_exec([base.python, "-m", "venv", f"{IMAGE_ROOT}/venv"]))
    python = python_inside(base)
    lines += [
        _exec([python, "-m", INSIDE, "apply", PLAN, str(number)])
        for number in range(len(recipe.spec.steps))
    ]
    if base.venv:
        lines += [
            "FROM base",
            f"WORKDIR {IMAGE_ROOT}",
            f"COPY --from=build {IMAGE_ROOT} {IMAGE_ROOT}",
        ]
    return "\n".join([*lines, "ENTRYPOINT []", "CMD []"]) + "\n"


def _packages(names: tuple[str, ...]) -> str:
    wanted = " ".join(names)
    return (
        f"RUN echo '== packages' && {{ dpkg --status {wanted} > /dev/null 2>&1"
        f" || {{ apt-get update && apt-get install --yes --no-install-recommends {wanted}"
        " && rm -rf /var/lib/apt/lists/*; }; }"
    )


def _build(
    recipe: Recipe, base: ImageBase, ref: str, digest: str, site: Site, wheelhouse: Path | None
) -> Engine:
    began = time.monotonic()
    tag = f"tuner/{recipe.name}:{digest[:12]}"
    context = _context(recipe, base, ref, digest, site.root, wheelhouse)
    try:
        site.run(
            0,
            _command(base, tag, context, offline=wheelhouse is not None),
            env=build_env({"DOCKER_BUILDKIT": "1" if _has_buildx() else "0"}),
            timeout_s=_TIMEOUT_S,
            inner=_StepInHand(site.log),
        )
    except BaseException:
        _sweep_failed(digest)
        raise
    finally:
        shutil.rmtree(context / "wheels", ignore_errors=True)
    _sweep(digest)  # the stage that the environment was built in
    engine = _engine(recipe, base, digest, site.root, tag)
    try:
        site.run(1, ["true"], env=build_env(), timeout_s=10)
        checked = ask(engine, "check", PLAN, "build", devices=False)
        require(results_of(checked, recipe), log=site.log)
        found = ask(engine, "probe", devices=False)
    except BaseException:
        docker("image", "rm", tag)
        raise
    return _engine(
        recipe,
        base,
        digest,
        site.root,
        tag,
        fingerprint=fingerprint_of(found, image=image_id(tag)),
        built_in_s=round(time.monotonic() - began, 1),
    )


def _sweep(digest: str) -> None:
    """Remove the images of a build that no name leads to."""
    docker("image", "prune", "--force", "--filter", f"label={LABEL}={digest}", timeout_s=600)


def _sweep_failed(digest: str) -> None:
    """Remove all that a failed build left; the daemon takes a moment to let go of a step that was stopped."""
    deadline = time.monotonic() + _LET_GO_S
    while time.monotonic() < deadline:
        _sweep(digest)
        label = f"label={LABEL}={digest}"
        if not docker("image", "ls", "--all", "--quiet", "--filter", label)[1].strip():
            return
        time.sleep(0.2)


def _context(
    recipe: Recipe, base: ImageBase, ref: str, digest: str, root: Path, wheelhouse: Path | None
) -> Path:
    """The build context: the same bytes for the same recipe, whenever and wherever it is made."""
    context = root / "context"
    (context / "engine").mkdir(parents=True)
    lay_out(
        recipe,
        context / "engine",
        root=IMAGE_ROOT,
        wheelhouse=None if wheelhouse is None else _WHEELS,
    )
    text = dockerfile(recipe, base, ref, digest, wheels=wheelhouse is not None)
    (context / "Dockerfile").write_text(text, encoding="utf-8")
    if wheelhouse is not None:
        (context / "wheels").mkdir()
        for wheel in sorted(wheelhouse.glob("*.whl")):
            _link_or_copy(wheel, context / "wheels" / wheel.name)
    normalize(context / "engine")
    return context


def _command(base: ImageBase, tag: str, context: Path, *, offline: bool) -> list[str]:
    words = ["docker", "build", "--tag", tag, "--network", "none" if offline else base.network]
    words += ["--progress", "plain"] if _has_buildx() else ["--force-rm"]
    for name in _INDEX_ARGS:
        if not offline and os.environ.get(name):
            words += ["--build-arg", name]
    return [*words, str(context)]


def _engine(
    recipe: Recipe,
    base: ImageBase,
    digest: str,
    root: Path,
    tag: str,
    *,
    fingerprint: Fingerprint | None = None,
    built_in_s: float = 0.0,
) -> Engine:
    python = python_inside(base)
    known = inspect("image", tag) or {}
    return Engine(
        recipe=recipe.name,
        digest=digest,
        kind="image",
        root=root,
        python=Path(python),
        server=tuple(word.replace("{python}", python) for word in recipe.spec.server),
        env=tuple(sorted(recipe.spec.env.items())),
        fingerprint=fingerprint or Fingerprint("", None, None, (), "", ()),
        image=tag,
        container=recipe.spec.container,
        kv_cache=recipe.spec.kv_cache,
        built_in_s=built_in_s,
        size=int(known.get("Size", 0)),
    )


def python_inside(base: ImageBase) -> str:
    """The interpreter that an engine runs with inside its image."""
    return f"{IMAGE_ROOT}/venv/bin/python" if base.venv else base.python


def _has_buildx() -> bool:
    return docker("buildx", "version")[0] == 0


class _StepInHand:
    """Follows a build's output and knows the recipe's step that it has come to; None before the first."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._last: str | None = None

    def __call__(self) -> str | None:
        found = _STEP.findall(tail(self._log))
        self._last = found[-1] if found else self._last
        return self._last


def _exec(argv: list[str]) -> str:
    return f"RUN {json.dumps(argv)}"


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def _wheels_size(wheelhouse: Path | None) -> int:
    """Bytes that wheels take while an image is built: once in the context, once in a layer."""
    if wheelhouse is None:
        return 0
    return 2 * sum(wheel.stat().st_size for wheel in wheelhouse.glob("*.whl"))


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source.resolve(), target)
    except OSError:  # another disk, or a file system without hard links
        shutil.copyfile(source, target)
