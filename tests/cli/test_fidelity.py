from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tuner.cli.fidelity import fidelity_command
from tuner.errors import UserError
from tuner.store.ledger import Ledger
from tuner.store.rows import Origin
from tuner.store.stages import Stage

app = typer.Typer()
app.command()(fidelity_command)
RULE = "noise: 0.01\nquestion: Does A order as B?\n"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "a.csv").write_text("x,value\n" + "".join(f"{x},{x}\n" for x in range(1, 8)))
    (tmp_path / "b.csv").write_text("x,value\n" + "".join(f"{x},{x * x}\n" for x in range(1, 8)))
    (tmp_path / "rule.yaml").write_text(RULE)
    return [
        str(tmp_path / "a.csv"),
        str(tmp_path / "b.csv"),
        "--rule",
        str(tmp_path / "rule.yaml"),
    ]


def test_two_files_as_text_markdown_and_json(files: list[str]) -> None:
    run = CliRunner()
    text = run.invoke(app, files)
    assert text.exit_code == 0
    assert text.stdout.startswith("supported: Does A order as B?")
    assert "**Supported.**" in run.invoke(app, [*files, "--markdown"]).stdout
    assert json.loads(run.invoke(app, [*files, "--json"]).stdout)["answer"] == "supported"


def test_both_forms_at_once_are_a_mistake(files: list[str]) -> None:
    found = CliRunner().invoke(app, [*files, "--markdown", "--json"])
    assert isinstance(found.exception, UserError)


def test_two_workloads_of_a_study(tmp_path: Path, files: list[str]) -> None:
    state = tmp_path / "state"
    with Ledger(state, write=True) as ledger:
        study = ledger.create_study(name="s", fingerprint="f", space="", origin="o")
        for x in range(1, 7):
            trial = ledger.plan(
                study.id, origin=Origin.SEARCH, params={"x": x}, assignment=None, deployment={}
            )
            loads = {
                "short": {"figures": {"weighted": -x}},
                "long": {"figures": {"weighted": 10.0 * x}},
            }
            ledger.advance(trial, Stage.VERIFIED, metrics={"score": 1.0, "workloads": loads})
    asked = ["s", "--levels", "short", "long", "--json", *files[2:]]
    found = CliRunner().invoke(app, asked, obj=state)
    assert found.exit_code == 0, found.exception
    assert json.loads(found.stdout)["answer"] == "rejected"
    assert json.loads(found.stdout)["figures"]["tau_b"] == -1
    everything = CliRunner().invoke(app, ["s", "--levels", "short", "real", *files[2:]], obj=state)
    assert everything.exit_code == 0


def test_without_two_things_or_without_a_rule_nothing_can_be_compared(files: list[str]) -> None:
    one, two, *rule = files
    for asked in ([one, *rule], [one, two, "--levels", "x", "y", *rule], [one, two]):
        assert isinstance(CliRunner().invoke(app, asked).exception, UserError)
