"""How long all is that a study's load asks, kept in its folder.

Plans need an engine that counts tokens, so a study that goes on has none until one is up. The lengths
are the same for all its trials: what knew them once knows them again before that.
"""

from __future__ import annotations

import contextlib
import hashlib
import json

from pydantic import BaseModel, ConfigDict, ValidationError

from tuner.fidelity.asked import Asked
from tuner.files import write_atomic
from tuner.trial.climbing import digests
from tuner.trial.context import Study

LENGTHS = "lengths.json"


class _Kept(BaseModel):
    """The file: what is asked, and of which load and model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    of: str
    asked: Asked


def keep(study: Study, asked: Asked) -> None:
    """Write down what is asked, if it is not there; a folder that refuses costs only the knowledge."""
    if recalled(study) != asked:
        text = _Kept(of=_question(study), asked=asked).model_dump_json()
        with contextlib.suppress(OSError):
            write_atomic(study.folder / LENGTHS, text)


def recalled(study: Study) -> Asked | None:
    """What is asked, by an earlier session; None where none knew, or another load was asked."""
    try:
        kept = _Kept.model_validate_json((study.folder / LENGTHS).read_bytes())
    except (OSError, ValidationError):
        return None
    return kept.asked if kept.of == _question(study) else None


def _question(study: Study) -> str:
    text = json.dumps([digests(study.space)["real"], sorted(study.models)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
