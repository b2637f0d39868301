"""Deployments to write down: ordinary ones, and any text that a flag, a variable or a path may hold."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from tuner.export.served import Served
from tuner.launch.base import ContainerPlan

WORDS = st.text(
    st.characters(exclude_categories=("C", "Zl", "Zp"), exclude_characters="\x85\ufeff"),
    max_size=30,
) | st.sampled_from(
    ["1e3", "0o17", "1:30", "y", "No", "~", "", "$HOME", "${X:-y}", "$(VAR)", "$$", "%h", "a b",
     "'", '"', "\\n", "#x", "{a: b}", "-1", "0|1"]
)  # fmt: skip
NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,20}", fullmatch=True).filter(
    # What a shell keeps for itself, or what a container is always given.
    lambda name: name not in {"HOME", "USER", "LOGNAME", "PATH", "IFS", "ENV", "PWD", "PS1"}
)
FLAGS = st.lists(st.tuples(st.just("--flag"), WORDS).map(list), max_size=4).map(
    lambda pairs: tuple(word for pair in pairs for word in pair)
)
ENVIRONMENTS = st.dictionaries(NAMES, WORDS, max_size=4).map(lambda env: tuple(sorted(env.items())))

BOX = ContainerPlan(
    image="tuner/cpu:0123456789ab",
    mounts=(("/srv/models/tiny", "/model"),),
    shm=2**30,
    user="1000:1000",
    capabilities=("SYS_NICE",),
)
PROCESS = Served(
    study="one",
    trial=3,
    command=("/opt/engine/bin/python", "-m", "server", "--model", "/srv/models/tiny", "-tp", "2"),
    env=(("A", "1"), ("VLLM_CPU_OMP_THREADS_BIND", "0|1")),
    secrets=(("HF_TOKEN", "MY_TOKEN"),),
    memory=3 * 2**30,
    model="/srv/models/tiny",
)
CONTAINER = replace(
    PROCESS,
    command=("python3", "-m", "server", "--model", "/model"),
    container=BOX,
)
CARDS = replace(
    CONTAINER,
    container=replace(
        BOX,
        devices=("/dev/iluvatar0", "/dev/iluvatar1"),
        mounts=(
            *BOX.mounts,
            ("/usr/src", "/usr/src"),
            ("/srv/a, b/chat.jinja", "/srv/a, b/chat.jinja"),
        ),
        user=None,
    ),
    devices=2,
    resource="iluvatar.com/gpu",
    files=(("/srv/a, b/chat.jinja", "{{ messages }}\nend\n"),),
)
NVIDIA = replace(
    CONTAINER, container=replace(BOX, gpus=True), devices=4, secrets=(), memory=None, trial=0
)
CONTAINERS = {"plain": CONTAINER, "cards": CARDS, "nvidia": NVIDIA}
