"""What the parts of a recipe have in common: strictness, and the forms of names and lines."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Package = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9+.-]*$")]
Line = Annotated[str, Field(min_length=1, pattern=r"^[^\r\n\x00]*$")]


class Strict(BaseModel):
    """A frozen part of a recipe; a key that it does not know is a mistake, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)
