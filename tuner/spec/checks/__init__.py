"""What must hold in a search space beyond the form of each value."""

from __future__ import annotations

from tuner.spec.checks.engine import check_engine
from tuner.spec.checks.groups import check_groups
from tuner.spec.checks.names import check_names
from tuner.spec.checks.parameters import check_parameters
from tuner.spec.document import SpaceDocument
from tuner.spec.strict_yaml import Document


def check_document(document: SpaceDocument, source: Document) -> None:
    """Check all that can be checked without knowing the machine.

    Raises:
        SpaceError: At the first thing that does not hold, with its line.
    """
    check_engine(document, source)
    check_groups(document, source)
    check_names(document, source)
    check_parameters(document, source)
