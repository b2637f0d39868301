"""Workloads in a file of their own."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError

from tuner.errors import SpaceError
from tuner.spec.base import Slug, Strict
from tuner.spec.complaint import complaint
from tuner.spec.strict_yaml import parse_document, read_text
from tuner.spec.workload import Workload


class WorkloadFile(Strict):
    """What a workload file holds: one workload as in a search space, or several by name."""

    workload: Workload | None = None
    """The only workload; the file may also hold its keys at the top."""
    workloads: dict[Slug, Workload] = Field(default_factory=dict)
    """Several, by name."""


def read_workloads(file: Path) -> dict[str, Workload]:
    """The workloads of a file, by name, in its order. A single one has the name of the file.

    Raises:
        SpaceError: When the file cannot be accepted: one sentence with file, line and mend.
    """
    source = parse_document(read_text(file), file)
    data = source.data
    if not isinstance(data, dict):
        raise SpaceError(
            "a workload is a mapping", file=file, line=1, mend="begin with kind: conversations"
        )
    whole = data if data.keys() & {"workload", "workloads"} else {"workload": data}
    try:
        found = WorkloadFile.model_validate(whole)
    except ValidationError as error:
        raise complaint(error, source, WorkloadFile) from error
    if found.workload is not None and found.workloads:
        raise source.error(("workload",), "workload and workloads are both there", "keep one")
    if found.workload is not None:
        return {file.stem: found.workload}
    if not found.workloads:
        raise SpaceError("no workload is declared", file=file, line=1, mend="add one")
    return dict(found.workloads)
