"""A canary as a secret: it reaches the engine, and is found nowhere else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.daemon.conftest import Keeper, body, tuner, until, wait_for
from tests.fakes.world import World
from tuner.daemon.client import Client
from tuner.errors import UserError
from tuner.launch.base import LOG_NAME

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("engines"), pytest.mark.timeout(120)]

CANARY = 'canary-"5f1c/ü'
PART = b"canary-"
LOG = f"trials/0000/attempt-1/{LOG_NAME}"


def secretive(make: Callable[..., World], *fake: str, **changes: Any) -> World:
    """A world whose engine is given a secret, and prints it."""
    world = make("fake", fake=fake, **changes)
    space = yaml.safe_load(world.space.read_text())
    space["engine"]["env"] = {"FAKE_SECRET": {"from_env": "MY_TOKEN"}}
    world.space.write_text(yaml.safe_dump(space, sort_keys=False))
    return world


def holding(*folders: Path) -> list[str]:
    """Files that hold a part of the canary."""
    places = [place for top in folders for place in os.walk(top)]
    paths = [Path(folder) / name for folder, _, names in places for name in names]
    return [str(path) for path in paths if path.is_file() and PART in path.read_bytes()]


def heard(client: Client) -> str:
    """All kept events of all studies, as they are sent."""
    said = []
    with client.events("/v1/events", 0) as events:
        for event in events:
            said.append(str(event))
            if event["kind"] == "study" and event["data"]["status"] in {"finished", "failed"}:
                break
    return "\n".join(said)


@pytest.mark.parametrize("way", ["sent", "inherited"])
def test_it_is_in_no_output_of_a_study(
    keeper: Keeper,
    world: Callable[..., World],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    one = secretive(world, "blab")
    if way == "inherited":  # as a service's environment file gives it
        monkeypatch.setenv("MY_TOKEN", CANARY)
    with keeper.start() as client:
        client.post("/v1/studies", body(one, secrets={"MY_TOKEN": CANARY} if way == "sent" else {}))
        wait_for(client, "fake", "stage", stage="ready")
        raw = client.text(f"/v1/studies/fake/artifacts/{LOG}").text
        assert "using token [MY_TOKEN], that is" in raw
        assert PART.decode() not in raw
        live = client.text("/v1/studies/fake/trials/0/log", follow=True).text
        assert "using token [MY_TOKEN], that is" in live
        until(client, "fake", "finished")
        files = [f"artifacts/{one['path']}" for one in client.get("/v1/studies/fake/artifacts")]
        forms = [f"export?trial=0&format={form}" for form in ("shell", "systemd")]
        own = ["trials", "trials/0", "report", "export", *forms, "space", "log", *files]
        paths = ["/v1/studies/fake", *(f"/v1/studies/fake/{path}" for path in own)]
        paths += ["/v1/studies", "/v1/health", "/metrics"]
        texts = [live, heard(client), *(client.text(path).text for path in paths)]
    assert not [text for text in texts if PART.decode() in text]
    keeper.stop()
    assert not holding(keeper.state, tmp_path / "fake" / "out")
    for words in (("logs", "fake", "0"), ("show", "fake", "0", "--json"), ("status", "--json")):
        done = tuner(keeper.state, *words)
        assert PART.decode() not in done.stdout + done.stderr


def test_it_is_not_in_the_proof_of_a_failure(keeper: Keeper, world: Callable[..., World]) -> None:
    with keeper.start() as client:
        client.post("/v1/studies", body(secretive(world, "blab-oom"), secrets={"MY_TOKEN": CANARY}))
        until(client, "fake", "failed")
        trial = client.get("/v1/studies/fake/trials/0")
        assert "[MY_TOKEN]" in str(trial["judgement"]["evidence"])
    keeper.stop()
    assert not holding(keeper.state)


def test_what_a_killed_daemon_and_worker_leave_is_cleaned_when_the_study_goes_on(
    keeper: Keeper, world: Callable[..., World]
) -> None:
    one = secretive(world, "blab", "hang-in-load")
    with keeper.start() as client:
        client.post("/v1/studies", body(one, secrets={"MY_TOKEN": CANARY}))
        while not holding(keeper.state):
            pass
    keeper.kill(workers=True)
    with keeper.start() as client:
        # The secret is gone with the daemon's memory: the study says what it needs.
        assert "export MY_TOKEN" in until(client, "fake", "failed")["reason"]
        for path in ("trials/0/log", "trials/0/log?follow=true", f"artifacts/{LOG}"):
            with pytest.raises(UserError, match=r"may hold \$MY_TOKEN, which is not known"):
                client.text(f"/v1/studies/fake/{path}")
    keeper.stop()
    # Nor does the command line, which reads by itself now, show what it cannot clean.
    assert tuner(keeper.state, "logs", "fake", "0").returncode == 2
    known = tuner(keeper.state, "logs", "fake", "0", env_more={"MY_TOKEN": CANARY})
    assert "using token [MY_TOKEN], that is" in known.stdout, known.stderr
    assert PART.decode() not in known.stdout
    done = tuner(keeper.state, "resume", "fake", "--detach", env_more={"MY_TOKEN": CANARY})
    assert done.returncode == 0, done.stderr
    with keeper.start() as client:
        while client.get("/v1/studies/fake/trials/0")["attempt"] < 2:
            pass
        assert not holding(keeper.state / "studies/fake/trials/0000/attempt-1")
        client.post("/v1/studies/fake/stop")
        until(client, "fake", "stopped")
    keeper.stop()
    assert not holding(keeper.state)


@pytest.mark.parametrize(
    ("secrets", "said"),
    [({"MY_TOKEN": "abc"}, "fewer than 6 characters"), ({"OTHER": "abcdefgh"}, "no secret from")],
)
def test_a_secret_that_is_short_or_not_asked_for_is_refused(
    keeper: Keeper, world: Callable[..., World], secrets: dict[str, str], said: str
) -> None:
    with keeper.start() as client, pytest.raises(UserError, match=said) as caught:
        client.post("/v1/studies", body(secretive(world), secrets=secrets))
    assert "abc" not in str(caught.value)
