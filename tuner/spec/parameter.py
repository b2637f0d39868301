"""Parameters, values computed from them, and groups of them, as a search space declares them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from tuner.spec.base import EnvName, Note, Strict, written_as
from tuner.spec.expression import FUNCTIONS, WORDS, parse
from tuner.spec.flags import FlagName
from tuner.spec.ranges import FloatRange, IntegerRange
from tuner.spec.values import ChoiceValue, EnvValue, FlagValue, Join

RESERVED = frozenset({*WORDS, *FUNCTIONS, "hardware", "workload", "workloads"})
DOMAINS = ("choices", "integer", "float", "switch", "bundle")


def _parses(text: str) -> str:
    parse(text)
    return text


def _free(name: str) -> str:
    if name in RESERVED:
        raise ValueError(f"{name!r} is a word of the expressions: choose another name")
    return name


ExpressionText = Annotated[str, AfterValidator(_parses)]
"""An expression of the small language, such as ``2 * workload.concurrency``."""


def _whole_form(value: Any) -> str:
    return "a text" if isinstance(value, str) else "a number"


Whole = Annotated[
    Annotated[int, Tag("a number")] | Annotated[ExpressionText, Tag("a text")],
    Discriminator(_whole_form),
]
"""A whole number, or an expression that comes to one."""

Name = Annotated[
    str,
    *written_as(r"[A-Za-z_][A-Za-z0-9_]{0,63}", "letters, digits and underscores, at most 64"),
    AfterValidator(_free),
]
"""A name that expressions can use."""

Leaf = Annotated[
    str,
    *written_as(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*", "the keys with dots between, as in a.b"),
]
Setting = Literal["model", "recipe", "image", "version"]
Switch = Literal["pair", "bare"]
Label = Annotated[
    str,
    *written_as(r"\S([^\r\n\t]{0,62}\S)?", "one line of at most 64 characters, no blank around"),
]
"""The name of one choice of a bundle."""


class Target(Strict):
    """Where a value goes."""

    flag: FlagName | None = None
    """The server flag that the value sets."""
    leaf: Leaf | None = None
    """For a flag that takes JSON: the one place inside it that the value sets, as in a.b."""
    env: EnvName | None = None
    """The environment variable of the server that the value sets."""
    setting: Setting | None = None
    """The part of the engine that the value chooses: its model, its recipe, or with launch: docker its
    image. A version is chosen by a recipe or an image of it: version itself is refused for now."""
    switch: Switch | None = None
    """pair: true is --x and false is --no-x. bare: true is --x and false leaves it out."""
    join: Join | None = None
    """How a list becomes arguments: a,b or --x a b or --x a --x b."""

    @model_validator(mode="after")
    def _one_target(self) -> Target:
        targets = [name for name in ("flag", "env", "setting") if getattr(self, name) is not None]
        if len(targets) > 1:
            raise ValueError(f"has both {targets[0]} and {targets[1]}: keep one of the two")
        if self.leaf is not None and self.flag is None:
            raise ValueError("leaf needs a flag whose JSON it is in")
        if self.switch is not None and self.leaf is not None:
            raise ValueError("switch is for a whole flag; in JSON use choices: [true, false]")
        if self.switch is not None and self.flag is None:
            raise ValueError("switch is for a flag; write out the choices")
        if self.switch is not None and self.flag is not None and self.flag.startswith("--no-"):
            raise ValueError(f"write the positive flag: --{self.flag[5:]}")
        if self.join is not None and self.leaf is not None:
            raise ValueError("join does nothing in JSON, which has lists of its own")
        if self.join not in {None, "comma"} and self.flag is None:
            raise ValueError("only a comma joins a list outside a flag: write join: comma")
        return self

    @property
    def aim(self) -> str | None:
        """The target in a few words, or None where there is none."""
        if self.flag is not None:
            return f"flag {self.flag}" + (f", leaf {self.leaf}" if self.leaf else "")
        if self.env is not None:
            return f"env {self.env}"
        return f"the engine's {self.setting}" if self.setting is not None else None


class Bundle(Strict):
    """What one choice of a bundle sets."""

    flags: dict[FlagName, FlagValue] = Field(default_factory=dict)
    """Flags that this choice sets."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Environment variables that this choice sets."""


class Parameter(Target):
    """Something that is searched."""

    choices: Annotated[tuple[ChoiceValue, ...], Field(min_length=1)] | None = None
    """The values, written out; null leaves the flag or the variable out."""
    integer: IntegerRange | None = None
    """Whole numbers of a range."""
    floating: FloatRange | None = Field(default=None, alias="float")
    """Numbers of a range."""
    bundle: dict[Label, Bundle] | None = None
    """Named choices that each set several flags and variables."""
    baseline: ChoiceValue
    """The value that the study starts from and compares with."""
    when: ExpressionText | None = None
    """The condition on other parameters under which this one exists."""
    unit: Note | None = None
    """The unit of the values, for people."""
    description: Note | None = None
    """What the parameter is, for people."""

    @property
    def domain(self) -> tuple[str, ...]:
        """The names of the domains that are given: exactly one, or none for a group's member."""
        given = {
            "choices": self.choices,
            "integer": self.integer,
            "float": self.floating,
            "switch": self.switch,
            "bundle": self.bundle,
        }
        return tuple(name for name in DOMAINS if given[name] is not None)


class Computed(Target):
    """A value that follows from others and is not searched itself."""

    value: ExpressionText
    """What it is, as in 2 * workload.concurrency."""
    description: Note | None = None
    """What it is, for people."""


class Parallel(Strict):
    """Sizes whose product is a number, or divides it: every way to share the devices out."""

    members: Annotated[tuple[Name, ...], Field(min_length=1, max_length=6)]
    """The parameters that are the sizes."""
    equals: Whole | None = None
    """What the product must be, as in hardware.devices."""
    divides: Whole | None = None
    """What the product must divide."""

    @model_validator(mode="after")
    def _one_relation(self) -> Parallel:
        if (self.equals is None) == (self.divides is None):
            raise ValueError("parallel needs one of equals and divides")
        return self


class Group(Strict):
    """Parameters that move together: a list of combinations in place of a product."""

    points: Annotated[tuple[dict[Name, ChoiceValue], ...], Field(min_length=1)] | None = None
    """The combinations, written out."""
    together: dict[Name, Annotated[tuple[ChoiceValue, ...], Field(min_length=1)]] | None = None
    """Lists of equal length: the first values of all, then the second values of all …"""
    grids: (
        Annotated[
            tuple[dict[Name, Annotated[tuple[ChoiceValue, ...], Field(min_length=1)]], ...],
            Field(min_length=1),
        ]
        | None
    ) = None
    """Small grids; the combinations are those of all of them."""
    parallel: Parallel | None = None
    """Sizes whose product is, or divides, a number."""
    require: ExpressionText | None = None
    """Only combinations for which this holds."""
    when: ExpressionText | None = None
    """The condition on other parameters under which the group's parameters exist."""
    description: Note | None = None
    """What the group is, for people."""

    @model_validator(mode="after")
    def _one_form(self) -> Group:
        forms = ("points", "together", "grids", "parallel")
        given = [name for name in forms if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"a group needs exactly one of {', '.join(forms)}")
        return self

    @property
    def members(self) -> tuple[str, ...]:
        """The names of its parameters, in the order in which they are first written."""
        if self.parallel is not None:
            return self.parallel.members
        rows: tuple[dict[str, Any], ...] = self.points or self.grids or (self.together or {},)
        return tuple(dict.fromkeys(name for row in rows for name in row))


class Rule(Strict):
    """A combination that is not to be tried, and why."""

    forbid: ExpressionText | None = None
    """Points for which this is true are not tried."""
    require: ExpressionText | None = None
    """Points for which this is false are not tried."""
    reason: Note
    """Why, in a sentence; it is shown wherever a point is turned away."""

    @model_validator(mode="after")
    def _one_sense(self) -> Rule:
        if (self.forbid is None) == (self.require is None):
            raise ValueError("a rule needs one of forbid and require")
        return self

    @property
    def text(self) -> str:
        """The rule as it is written."""
        return f"forbid {self.forbid}" if self.forbid is not None else f"require {self.require}"
