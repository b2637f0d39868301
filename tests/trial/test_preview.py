"""What is shown before a study is what the study then starts."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.fakes.world import World
from tuner.errors import SpaceError
from tuner.launch.base import LaunchPlan
from tuner.launch.process import ProcessLauncher
from tuner.spec import Context, Hardware, load_space
from tuner.store.ledger import Ledger
from tuner.trial.admission import check_targets
from tuner.trial.command import server_command, shell_line
from tuner.trial.entry import enter_study
from tuner.trial.preview import as_json, as_lines, previews
from tuner.trial.session import work
from tuner.trial.summary import command_of
from tuner.trial.wishes import Wishes

pytestmark = pytest.mark.xdist_group("engines")
ON = Hardware(0, 2, 24 << 30)


@pytest.mark.slow
def test_the_command_that_is_shown_is_the_one_that_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    started: list[tuple[str, ...]] = []
    prepare = ProcessLauncher.prepare

    def seen(self: ProcessLauncher, plan: LaunchPlan) -> dict[str, object]:
        started.append(plan.argv)
        return prepare(self, plan)

    monkeypatch.setattr(ProcessLauncher, "prepare", seen)
    file = World(tmp_path, {"budget": {"trials": 1}}).make().space
    space = load_space(file)
    (shown, *_) = previews(space, Context.of(space, ON))
    with Ledger(tmp_path / "state", write=True) as ledger:
        row = enter_study(ledger, space, file)
        work(ledger, row, watchers=[], wishes=Wishes())
        told = command_of(ledger.study("fake"), ledger.trials(row.id)[0])
    assert shown.name == "baseline"
    assert shown.command[-4:] == ("--host", "127.0.0.1", "--port", "{port}")
    assert started[0] == shown.command[:-4]
    assert told["command"] == list(shown.command[:-4])
    assert told["env"] == shown.env


def world(tmp_path: Path, text: str = "") -> Path:
    file = tmp_path / "space.yaml"
    known = Path("search_spaces/local_cpu.yaml").read_text(encoding="utf-8")
    file.write_text(known + text)
    return file


def test_baseline_first_points_and_others_are_shown(tmp_path: Path) -> None:
    space = load_space(world(tmp_path))
    found = previews(space, Context.of(space, ON), count=4)
    assert [one.name for one in found] == [
        "baseline",
        "first 1",
        "first 2",
        *(f"point {number}" for number in range(1, 5)),
    ]
    assert found[0].changes == {}
    assert found[1].changes == {"kv_space": 64}
    assert found[1].env["VLLM_CPU_KVCACHE_SPACE"] == "64"
    assert "--no-enable-chunked-prefill" in found[2].command
    assert found[0].env["HF_HUB_OFFLINE"] == "1"
    python, *rest = found[0].command
    assert python.endswith("/venv/bin/python")
    assert rest[:3] == ["-m", "vllm.entrypoints.openai.api_server", "--model"]
    assert len(previews(space, Context.of(space, ON), count=0)) == 3


def test_a_fixed_port_is_shown(tmp_path: Path) -> None:
    file = world(tmp_path)
    file.write_text(file.read_text().replace("served_name: llm", "served_name: llm\n  port: 8123"))
    space = load_space(file)
    assert previews(space, Context.of(space, ON), count=0)[0].command[-2:] == ("--port", "8123")


def test_a_line_is_what_a_shell_reads(tmp_path: Path) -> None:
    line = shell_line(
        ("{python}", "-m", "x", "--json", '{"a": "b c"}', "--port", "{port}"),
        {"B": "two words", "A": "1"},
        {"HF_TOKEN": "MINE"},
    )
    assert line.startswith("A=1 B='two words' HF_TOKEN=\"$MINE\" {python} -m x --json ")
    assert shlex.split(line)[-3:] == ['{"a": "b c"}', "--port", "{port}"]


def test_secrets_are_shown_by_name_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "canary-in-the-environment")
    file = world(tmp_path)
    env = "env:\n    VLLM_TOKEN: {from_env: MINE}"
    file.write_text(file.read_text().replace("  env:\n", f"  {env}\n", 1))
    space = load_space(file)
    context = Context.of(space, ON)
    text = "\n".join(as_lines(space, context)) + json.dumps(as_json(space, context))
    assert 'VLLM_TOKEN="$MINE"' in text
    assert "canary" not in text


def test_a_container_is_shown_as_it_is_inside() -> None:
    space = load_space(Path("search_spaces/cuda_moe.yaml"), any_version=True)
    context = Context.of(space, Hardware(4, 64, 1 << 38, 80 << 30))
    found = previews(space, context)[0]
    assert found.command[:3] == ("python3", "-m", "vllm.entrypoints.openai.api_server")
    assert found.command[3:5] == ("--model", "/model")
    assert found.command[-4:] == ("--host", "0.0.0.0", "--port", "8000")  # noqa: S104 - inside
    assert "in a container of vllm/vllm-openai" in "\n".join(as_lines(space, context))


def test_json_has_all_of_it_and_only_json(tmp_path: Path) -> None:
    file = world(tmp_path)
    file.write_text(
        file.read_text()
        .replace("choices: [1, 2, 4, 64] #", "choices: [1, .inf] #")
        .replace("  - {kv_space: 64}\n", "")
    )
    space = load_space(file)
    found = as_json(space, Context.of(space, ON))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["study"] == "local-cpu"
    assert found["points"] == 1760
    assert found["space"]["parameters"]["kv_space"]["choices"] == [1, "inf"]
    assert found["space"]["rules"][0]["require"] == "max_num_batched_tokens >= max_num_seqs"
    assert found["known_to_expressions"]["workload.concurrency"] == 4
    assert {one["name"] for one in found["axes"]} == set(space.parameters)
    assert found["commands"][0]["name"] == "baseline"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("make: tiny-hybrid", "make: tiny-hybird", "nothing makes the model tiny-hybird — known"),
        ("launch: process", "launch: docker", None),
        ("recipe: cpu", "recipe: cuda", "recipe cuda cannot be launched as process — write launch"),
        (
            "concurrency: 4\n",
            "concurrency: 4\n  drop_env: [TRITON_*]\n",
            "TRITON_* drops nothing, as no engine is given such a variable — delete it",
        ),
        ("concurrency: 4\n", "concurrency: 4\n  drop_env: [VLLM_CPU_*, HF_*]\n", None),
        ("--enforce-eager: true", "--enforce-eagre: true", "did you mean --enforce-eager?"),
        ("env: ENGINEX_MOE_TINY_MAX", "env: ENGINE_MOE_TINY_MAX", "knows no variable ENGINE_MOE"),
    ],
)
def test_what_the_recipe_does_not_know_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, said: str | None
) -> None:
    file = world(tmp_path)
    head, tail = file.read_text().rsplit(old, 1)
    file.write_text(head + new + tail)
    space = load_space(file, any_version=True)
    if said is None:
        check_targets(space)
        return
    with pytest.raises(SpaceError) as caught:
        check_targets(space)
    assert said in str(caught.value)
    assert caught.value.line


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("flag: --max-num-seqs", "flag: --max-num-sekz", "did you mean --max-num-seqs?"),
        ("env: MOE_NATIVE", "env: VLLM_CPU_KVCACHE_SPAZE", "knows no variable VLLM_CPU_KVCACHE_SP"),
        ("env: MOE_NATIVE", "env: ENGINEX_NUMERIC_WATCH", "knows no variable ENGINEX_NUMERIC_WA"),
        ("version: 1\n", "version: 1\ndecode_profile: true\n", "its engine cannot be profiled"),
    ],
)
def test_what_does_nothing_on_the_first_target_is_refused(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    text = Path("search_spaces/bi100_qwen36.yaml").read_text()
    assert text.count(old) == 1
    file = tmp_path / "space.yaml"
    file.write_text(text.replace(old, new))
    space = load_space(file)
    with pytest.raises(SpaceError, match=re.escape(said)) as caught:
        check_targets(space)
    assert caught.value.line


def test_flags_that_nobody_listed_are_said_to_be_unchecked(tmp_path: Path) -> None:
    file = world(tmp_path)
    head, tail = file.read_text().rsplit("recipe: cpu", 1)
    file.write_text(f"{head}recipe: existing{tail}")
    space = load_space(file)
    said = "recipe existing lists no flags"
    assert any(said in line for line in as_lines(space, Context.of(space, ON), count=0))
    assert any(said in note for note in as_json(space, Context.of(space, ON), count=0)["notes"])


def test_the_command_is_one_for_all(tmp_path: Path) -> None:
    space = load_space(world(tmp_path))
    from tuner.spec import baseline, resolve

    context = Context.of(space, ON)
    deployment = resolve(space, baseline(space, context), context)
    assert server_command(("py", "-m", "s"), "/m", deployment) == (
        *("py", "-m", "s", "--model", "/m", "--served-model-name", "llm"),
        *deployment.argv,
    )


def test_a_model_that_is_not_here_is_noted(tmp_path: Path) -> None:
    file = world(tmp_path)
    text = file.read_text(encoding="utf-8")
    made = next(line for line in text.splitlines() if "make: tiny-hybrid" in line)
    stored = made.replace("make: tiny-hybrid, seed: 0", f"path: {tmp_path}/nowhere")
    file.write_text(text.replace(made, stored))
    space = load_space(file)
    said = f"the model {tmp_path}/nowhere is not on this machine"
    context = Context.of(space, ON)
    assert said in as_json(space, context, count=0)["notes"]
    assert any(said in line for line in as_lines(space, context, count=0))
