"""The small language of conditions, rules and computed values: from text to a tree.

::

    choice     = either [ "if" either "else" choice ]
    either     = both { "or" both }
    both       = negation { "and" negation }
    negation   = "not" negation | comparison
    comparison = sum [ ("==" | "!=" | "<" | "<=" | ">" | ">=" | ["not"] "in") sum ]
    sum        = product { ("+" | "-") product }
    product    = signed { ("*" | "/" | "//" | "%") signed }
    signed     = "-" signed | atom
    atom       = number | text | "true" | "false" | "null" | name | function | list | "(" choice ")"

It is our own, and not Python's, so that a search space can compute but never run code: there are
no attributes, no calls but five functions, no loops, and length and depth are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

from tuner.spec.syntax import (
    Call,
    Chain,
    Choice,
    Comparison,
    Items,
    Literal,
    Logic,
    Name,
    Negative,
    Node,
    Not,
    names,
    unparse,
)

MAX_LENGTH: Final = 1000
MAX_DEPTH: Final = 24
FUNCTIONS: Final = ("min", "max", "ceil", "floor", "round")
WORDS: Final = ("and", "or", "not", "in", "if", "else", "true", "false", "null", *FUNCTIONS)
COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=")

_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"|(?P<sign>//|==|!=|<=|>=|[-+*/%<>()\[\],]))",
    re.ASCII,
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_ELSEWHERE: Final = (
    ("===", "=="),
    ("!==", "!="),
    ("<>", "!="),
    ("=>", ">="),
    ("=<", "<="),
    ("is not", "!="),
    ("is", "=="),
    ("AND", "and"),
    ("OR", "or"),
    ("NOT", "not"),
)
"""Spellings of other languages, with ours."""
_FOREIGN: Final = {"&": "and", "|": "or", "!": "not", "=": "==", "^": "a product"}


class ExpressionError(ValueError):
    """Raised when an expression cannot be read or cannot be computed."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was read.

    Attributes:
        text: As it was written.
        tree: What it says.
        names: All names in it.
    """

    text: str
    tree: Node
    names: frozenset[str]

    @property
    def canonical(self) -> str:
        """The same text for all spellings of the same tree."""
        return unparse(self.tree)


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Read an expression.

    Raises:
        ExpressionError: With the place of the mistake, counted in characters from 1.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"the expression is over {MAX_LENGTH} characters: split it")
    try:
        tree = _Parser(text).whole()
    except ExpressionError:
        _refuse_elsewhere(text)
        raise
    return Expression(text, tree, frozenset(names(tree)))


def _refuse_elsewhere(text: str) -> None:
    """Say which spelling of another language a text holds, where it holds one."""
    bare = _QUOTED.sub(lambda quoted: " " * len(quoted[0]), text)
    for theirs, ours in _ELSEWHERE:
        edge = r"\b" if theirs[0].isalpha() else ""
        if found := re.search(f"{edge}{re.escape(theirs)}{edge}", bare):
            at = found.start() + 1
            raise ExpressionError(
                f"{theirs!r} at character {at} is not part of the language: write {ours}"
            ) from None


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    end = len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            _refuse_character(text, at)
        kind = found.lastgroup or ""
        yield _Token(kind, found[kind], found.start(kind) + 1)
        at = found.end()
    yield _Token("end", "", end + 1)


def _refuse_character(text: str, at: int) -> NoReturn:
    while text[at].isspace():
        at += 1
    what = text[at]
    if what in "'\"":
        raise ExpressionError(f"the text that begins at character {at + 1} is never closed")
    hint = f": write {_FOREIGN[what]}" if what in _FOREIGN else ""
    raise ExpressionError(f"{what!r} at character {at + 1} is not part of the language{hint}")


class _Parser:
    """Recursive descent over the tokens, with a bound on the depth."""

    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.next = 0
        self.depth = 0

    def whole(self) -> Node:
        tree = self._choice()
        if self._here.kind != "end":
            self._refuse(f"{self._here.text!r} is not expected here")
        return tree

    @property
    def _here(self) -> _Token:
        return self.tokens[self.next]

    def _at(self, *texts: str) -> bool:
        return self._here.kind in {"sign", "name"} and self._here.text in texts

    def _take(self) -> str:
        token = self._here
        self.next += 1
        return token.text

    def _expect(self, text: str, after: str) -> None:
        if not self._at(text):
            self._refuse(f"{text!r} is missing after {after}")
        self._take()

    def _error(self, message: str) -> ExpressionError:
        return ExpressionError(f"{message} (character {self._here.at})")

    def _refuse(self, message: str) -> NoReturn:
        raise self._error(message)

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self._refuse(f"nested deeper than {MAX_DEPTH} levels")

    def _choice(self) -> Node:
        self._deeper()
        yes = self._either()
        if self._at("if"):
            self._take()
            condition = self._either()
            self._expect("else", "the condition")
            yes = Choice(condition, yes, self._choice())
        self.depth -= 1
        return yes

    def _either(self) -> Node:
        operands = [self._both()]
        while self._at("or"):
            self._take()
            operands.append(self._both())
        return operands[0] if len(operands) == 1 else Logic("or", tuple(operands))

    def _both(self) -> Node:
        operands = [self._negation()]
        while self._at("and"):
            self._take()
            operands.append(self._negation())
        return operands[0] if len(operands) == 1 else Logic("and", tuple(operands))

    def _negation(self) -> Node:
        if not self._at("not"):
            return self._comparison()
        self._deeper()
        self._take()
        node = Not(self._negation())
        self.depth -= 1
        return node

    def _comparison(self) -> Node:
        left = self._sum()
        operator = self._comparison_operator()
        if operator is None:
            return left
        node = Comparison(operator, left, self._sum())
        if self._at(*COMPARISONS, "in", "not"):
            self._refuse("comparisons do not chain: write a < b and b < c")
        return node

    def _comparison_operator(self) -> str | None:
        if self._at(*COMPARISONS, "in"):
            return self._take()
        if self._at("not"):
            self._take()
            self._expect("in", "not")
            return "not in"
        return None

    def _sum(self) -> Node:
        first = self._product()
        rest = []
        while self._at("+", "-"):
            rest.append((self._take(), self._product()))
        return Chain(first, tuple(rest)) if rest else first

    def _product(self) -> Node:
        first = self._signed()
        rest = []
        while self._at("*", "/", "//", "%"):
            rest.append((self._take(), self._signed()))
        return Chain(first, tuple(rest)) if rest else first

    def _signed(self) -> Node:
        if not self._at("-"):
            return self._atom()
        self._deeper()
        self._take()
        operand = self._signed()
        self.depth -= 1
        return Negative(operand)

    def _atom(self) -> Node:
        token = self._here
        if token.kind == "number":
            return Literal(_number(self._take()))
        if token.kind == "text":
            return Literal(self._take()[1:-1])
        if token.kind == "name":
            return self._word()
        if self._at("["):
            self._take()
            return Items(self._arguments("]"))
        if self._at("("):
            self._take()
            inner = self._choice()
            self._expect(")", "the parenthesis")
            return inner
        raise self._error(
            "a value is missing" if token.kind == "end" else f"{token.text!r} is no value"
        )

    def _word(self) -> Node:
        word = self._here.text
        if word in FUNCTIONS:
            self._take()
            self._expect("(", word)
            return Call(word, self._arguments(")"))
        if word in _CONSTANTS:
            self._take()
            return Literal(_CONSTANTS[word])
        if word in WORDS:
            self._refuse(f"{word!r} is not expected here")
        return Name(self._take())

    def _arguments(self, close: str) -> tuple[Node, ...]:
        items = []
        while not self._at(close):
            items.append(self._choice())
            if not self._at(","):
                break
            self._take()
        self._expect(close, "the list")
        return tuple(items)


def _number(text: str) -> int | float:
    return int(text) if text.isdigit() else float(text)
