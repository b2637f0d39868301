"""What can be said of a point before it is started: its memory's lower bound, and the engine's own word."""

from __future__ import annotations

from typing import Any

from tuner.launch.preflight import Preflight
from tuner.memory.bound import Margin, Place, fits, lower_bound
from tuner.memory.request import MemoryRequest
from tuner.spec.deployment import Deployment
from tuner.trial.context import Study
from tuner.trial.judgement import judgement_json
from tuner.trial.margins import Margins
from tuner.trial.origin import own_package, words
from tuner.trial.starting import model_path, preflight
from tuner.verdict import Evidence, ExitFacts, Retry, TrialStage, Verdict, judge, read_log

_WORDS = {
    Place.DEVICE: (Verdict.DEVICE_OOM_LOAD, "its memory cannot fit on a device"),
    Place.NODE: (Verdict.HOST_OOM, "its memory cannot fit on the NUMA node"),
    Place.HOST: (Verdict.HOST_OOM, "its memory cannot fit on the host"),
    Place.KV_SPACE: (Verdict.KV_SEQUENCE, "one longest sequence cannot fit into its KV space"),
}
_ASKED_TOO_MUCH = (Verdict.KV_SPACE, "the KV space asked for cannot fit")


class Foresight:
    """Rejects points that cannot run, each with its proof. What is only likely to fail is started.

    Args:
        study: The study and all that it has at hand.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._margins = Margins(study)
        self._askers: dict[tuple[str, str], Preflight] = {}
        self._packages: dict[str, str] = {}

    def close(self) -> None:
        """End the warm processes."""
        for asker in self._askers.values():
            asker.close()
        self._askers.clear()

    def objection(self, deployment: Deployment) -> dict[str, Any] | None:
        """Why a deployment need not be started, as a judgement for the ledger; None to start it."""
        return self._memory(deployment) or self._engine(deployment)

    # --- memory ----------------------------------------------------------------------------------

    def _memory(self, deployment: Deployment) -> dict[str, Any] | None:
        request = self._margins.request(deployment)
        bound = lower_bound(self._margins.facts(deployment), request)
        margin = fits(bound, self._margins.capacity(deployment))
        return None if margin is None or margin.ok else _too_large(margin, request)

    # --- the engine's word -----------------------------------------------------------------------

    def _engine(self, deployment: Deployment) -> dict[str, Any] | None:
        engine = self._study.engines[deployment.engine]
        model = model_path(engine, self._study.models[deployment.model])
        asker = self._asker(deployment)
        self._tell_package(deployment.engine, asker)
        answer = asker.ask(
            ["--model", model, *deployment.argv],
            dict(deployment.env),
        )
        if answer.accepted is not False:
            return None
        lines = ["Traceback (most recent call last):", *answer.error.splitlines()]
        if "error:" in answer.error.splitlines()[0]:
            lines = answer.error.splitlines()  # argparse prints no traceback
        log = read_log([f"{line}\n" for line in lines])
        found = judge(Evidence(log=log, exit=ExitFacts(status=1), stage=TrialStage.STARTING))
        # Words that no rule knows are no reason: the start itself will tell.
        if not found.teaches:
            return None
        # Nothing was started that could have failed by chance: asked again it would say the same.
        return {**judgement_json(found), "retry": str(Retry.NONE)}

    def _tell_package(self, name: str, asker: Preflight) -> None:
        """Say where an engine's package is imported from and keep it, once; refuse a foreign one."""
        found = own_package(name, asker)
        if found is None or name in self._packages:
            return
        self._packages[name] = found
        self._study.ledger.add_facts(self._study.row.id, {"packages": dict(self._packages)})
        self._study.voice.say("note", text=words(name, found))

    def _asker(self, deployment: Deployment) -> Preflight:
        where = (deployment.engine, deployment.model)
        if where not in self._askers:
            self._askers[where] = preflight(self._study, deployment)
        return self._askers[where]


def _too_large(margin: Margin, request: MemoryRequest) -> dict[str, Any]:
    verdict, title = _WORDS[margin.place]
    asked = bool(request.kv_bytes or request.blocks)
    if asked and margin.place is not Place.KV_SPACE:
        verdict, title = _ASKED_TOO_MUCH
    return {
        "verdict": str(verdict),
        "title": f"{title}; found before it was started",
        "stage": "planned",
        "rule": "memory lower bound",
        "evidence": [{"line": None, "text": line} for line in margin.lines],
        "notes": [],
        "advice": "Ask for less memory, or give it more: the arithmetic above says where it is missing.",
        "teaches": True,
        "retry": "none",
        "violation": max(0.001, -margin.relative / (1 - margin.relative)),
        "failed": True,
    }
