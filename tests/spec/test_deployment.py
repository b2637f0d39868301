from __future__ import annotations

import json

from tuner.spec import Deployment

FOUND = Deployment(
    recipe="cpu",
    model="make:tiny-hybrid:0",
    launch="process",
    argv=("--max-num-seqs", "4", "--x", "a b"),
    env=(("A", "1 2"), ("B", "2")),
    served_name="llm",
    secrets=(("HF_TOKEN", "MY_TOKEN"),),
    files=(("/a", "0" * 64),),
    image="a:1",
    version="0.32",
)


def test_it_comes_back_from_json() -> None:
    assert Deployment.from_json(json.loads(json.dumps(FOUND.as_json()))) == FOUND


def test_it_comes_back_from_json_of_an_earlier_form() -> None:
    data = FOUND.as_json()
    for name in ("secrets", "files", "image", "version"):
        del data[name]
    found = Deployment.from_json(data)
    assert found.argv == FOUND.argv
    assert (found.secrets, found.files, found.image, found.version) == ((), (), None, None)


def test_the_digest_is_of_all_of_it() -> None:
    other = Deployment.from_json({**FOUND.as_json(), "image": "a:2"})
    assert other.digest != FOUND.digest
    assert Deployment.from_json(FOUND.as_json()).digest == FOUND.digest


def test_the_command_line_is_for_a_shell_and_names_secrets_only() -> None:
    assert FOUND.command_line == (
        "A='1 2' B=2 HF_TOKEN=\"$MY_TOKEN\" vllm-server --max-num-seqs 4 --x 'a b'"
    )
