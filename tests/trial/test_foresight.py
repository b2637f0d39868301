"""What is said of an engine before anything is started: where its package is imported from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.fakes.world import World
from tests.launch.test_preflight import sitecustomize
from tests.trial.factory import DEPLOYMENT
from tuner.errors import UserError
from tuner.spec import load_space
from tuner.spec.deployment import Deployment
from tuner.store.ledger import Ledger
from tuner.store.stages import Stage
from tuner.trial import foresight as module
from tuner.trial.context import Study
from tuner.trial.deliver import report_files
from tuner.trial.entry import enter_study
from tuner.trial.foresight import Foresight
from tuner.trial.session import work
from tuner.trial.wishes import Wishes

pytestmark = [pytest.mark.xdist_group("engines"), pytest.mark.timeout(60)]

ONE = {"budget": {"trials": 1}}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def package(folder: Path) -> Path:
    """A folder with a package ``vllm`` that has nothing in it, so that it cannot be asked."""
    (folder / "vllm").mkdir(parents=True)
    (folder / "vllm" / "__init__.py").touch()
    return folder


@pytest.mark.slow
def test_the_import_path_is_said_kept_and_reported(tmp_path: Path) -> None:
    site = package(tmp_path / "site")
    world = World(tmp_path, ONE, recipe_env={"PYTHONPATH": str(site)}).make()
    path = str(site / "vllm" / "__init__.py")
    with Ledger(world.state, write=True) as ledger:
        row = enter_study(ledger, load_space(world.space), world.space)
        work(ledger, row, watchers=[], wishes=Wishes())
        row = ledger.study("fake")
        ((name, found),) = row.facts["packages"].items()
        assert found == path
        assert name in row.facts["engines"]
        notes = [event.data["text"] for event in ledger.events(row.id, kinds=("note",))]
        assert notes.count(f"engine {name} imports vllm from {path}") == 1
        (worklog,) = (text for file, text in report_files(ledger, row).items() if ".md" in file)
        assert "vllm imported from" in worklog
        assert path in worklog


def test_nothing_is_started_of_a_source_tree_that_shadows_the_engine(tmp_path: Path) -> None:
    odd = sitecustomize(tmp_path / "odd", package(tmp_path / "checkout"))
    site = package(tmp_path / "site")
    world = World(tmp_path, ONE, recipe_env={"PYTHONPATH": f"{odd}:{site}"}).make()
    with Ledger(world.state, write=True) as ledger:
        row = enter_study(ledger, load_space(world.space), world.space)
        with pytest.raises(UserError, match=r"imports vllm from .*checkout/vllm.* not of its env"):
            work(ledger, row, watchers=[], wishes=Wishes())
        (trial,) = ledger.trials(row.id)
        assert (trial.stage, trial.launched) == (Stage.PLANNED, False)
        assert ledger.study("fake").status == "failed"


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
    monkeypatch.setattr(Foresight, "_tell_package", lambda *_: None)
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
