"""Reading a search space: the file, its form, its sense, and whether it can be computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from tuner.errors import SpaceError
from tuner.spec.checks import check_document
from tuner.spec.complaint import complaint
from tuner.spec.context import ASSUMED, Context
from tuner.spec.document import SpaceDocument
from tuner.spec.identity import fingerprint_of, meaning_of
from tuner.spec.soundness import asks_hardware, check
from tuner.spec.space import SearchSpace
from tuner.spec.strict_yaml import parse_document, read_text
from tuner.spec.supported import refuse_unsupported
from tuner.spec.uses import used_files


def load_space(
    path: Path, *, relative_to: Path | None = None, any_version: bool = False
) -> SearchSpace:
    """Read a search space from a file.

    Args:
        path: The file.
        relative_to: The folder that paths in it are relative to; the file's own by default.
        any_version: Accept also what this version of the program cannot run yet.

    Raises:
        SpaceError: When it cannot be accepted: one sentence with file, line and mend.
    """
    return parse_space(read_text(path), path, relative_to=relative_to, any_version=any_version)


def parse_space(
    text: str, file: Path, *, relative_to: Path | None = None, any_version: bool = False
) -> SearchSpace:
    """Read a search space from its text.

    Args:
        text: The content.
        file: The name for messages; paths are relative to its folder.
        relative_to: Another folder that paths are relative to.
        any_version: Accept also what this version of the program cannot run yet.

    Raises:
        SpaceError: When it cannot be accepted: one sentence with file, line and mend.
    """
    source = parse_document(text, file)
    if relative_to is not None:
        source = replace(source, folder=relative_to)
    if not isinstance(source.data, dict):
        raise SpaceError(
            "a search space is a mapping", file=file, line=1, mend="begin with version: 1"
        )
    try:
        document = SpaceDocument.model_validate(source.data)
    except ValidationError as error:
        raise complaint(error, source, SpaceDocument) from error
    check_document(document, source)
    files = used_files(document, source)
    meaning = meaning_of(document, files)
    space = SearchSpace(document, source, text, files, meaning, fingerprint_of(meaning))
    if not asks_hardware(document):
        check(space, Context.of(space, ASSUMED))
    if not any_version:
        refuse_unsupported(document, source)
    return space
