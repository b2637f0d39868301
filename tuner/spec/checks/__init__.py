"""What must hold in a search space beyond the form of each value."""

from __future__ import annotations

from tuner.spec.checks.comparisons import check_comparisons
from tuner.spec.checks.engine import check_engine
from tuner.spec.checks.export import check_export
from tuner.spec.checks.groups import check_groups
from tuner.spec.checks.idle import check_idle
from tuner.spec.checks.image import check_image
from tuner.spec.checks.levels import check_levels
from tuner.spec.checks.names import check_names
from tuner.spec.checks.parameters import check_parameters
from tuner.spec.document import SpaceDocument
from tuner.spec.strict_yaml import Document


def check_document(document: SpaceDocument, source: Document) -> None:
    """Check all that can be checked without knowing the machine.

    Raises:
        SpaceError: At the first thing that does not hold, with its line.
    """
    if document.workload is not None and document.workloads is not None:
        raise source.error(
            ("workloads",), "there are both workload and workloads", "keep one of the two"
        )
    check_engine(document, source)
    check_groups(document, source)
    check_names(document, source)
    check_parameters(document, source)
    check_image(document, source)
    check_export(document, source)
    check_levels(document, source)
    check_idle(document, source)
    check_comparisons(document, source)
