from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tuner.spec.deployment import Deployment
from tuner.trial import foresight as module
from tuner.trial.context import Study
from tuner.trial.foresight import Foresight

DEPLOYMENT: dict[str, Any] = {
    "recipe": "cpu",
    "model": "m",
    "launch": "process",
    "argv": [],
    "env": {},
    "served_name": "llm",
    "files": {},
    "secrets": {},
    "image": None,
    "version": None,
}


class Asker:
    """An engine's parser that refuses everything in the same words."""

    def __init__(self, error: str) -> None:
        self._error = error

    def ask(self, *_: object) -> Any:
        return SimpleNamespace(accepted=False, error=self._error)

    def close(self) -> None:
        pass


def objection(error: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any] | None:
    monkeypatch.setattr(Foresight, "_memory", lambda *_: None)
    monkeypatch.setattr(module, "model_path", lambda *_: "/model")
    monkeypatch.setattr(module, "preflight", lambda *_: Asker(error))
    study = SimpleNamespace(engines={"cpu": None}, models={"m": Path("/model")})
    return Foresight(cast(Study, study)).objection(Deployment.from_json(DEPLOYMENT))


@pytest.mark.parametrize("error", ["ValueError: 7 is no multiple of 16", "AssertionError"])
def test_what_the_engine_refuses_when_asked_is_no_chance(
    error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = objection(error, monkeypatch)
    assert found is not None
    assert (found["teaches"], found["retry"]) == (True, "none")


def test_words_that_no_rule_knows_are_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert objection("strange.words.of: somebody", monkeypatch) is None
