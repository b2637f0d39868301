"""The JSON Schema of search spaces, for editors: ``python -m tuner.spec.schema`` writes it.

The models give the form of each value. What holds between keys, as that a rule either forbids or
requires, is written here once more in the words of JSON Schema, as far as it has words for it. The
rest is the loader's: that names are known, that a baseline is one of the values, that a point exists.
"""

from __future__ import annotations

import json
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

from tuner.files import write_atomic
from tuner.spec.document import SpaceDocument
from tuner.spec.flags import LAUNCHERS
from tuner.spec.parameter import DOMAINS, RESERVED

FILE = Path("docs/reference/search_space.schema.json")

_TARGETS = ("flag", "env", "setting")
_NAMED = ("parameters", "groups", "computed", "workloads")


def schema() -> dict[str, Any]:
    """The schema, made from the models and their docstrings."""
    found = SpaceDocument.model_json_schema(by_alias=True)
    found = _plain({key: value for key, value in found.items() if key != "title"})
    for name, extra in _between().items():
        part = found if name == "" else found["$defs"][name]
        part["allOf"] = extra
    for name in _NAMED:
        found["properties"][name]["propertyNames"] = {"not": {"enum": sorted(RESERVED)}}
    for holder in ("Engine", "Bundle"):
        flags = found["$defs"][holder]["properties"]["flags"]
        flags["propertyNames"] = {"not": {"enum": sorted(_spellings())}}
    found["$defs"]["Parameter"]["properties"]["choices"]["uniqueItems"] = True
    found["$defs"]["Weights"]["required"] = list(found["$defs"]["Weights"]["properties"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Search space of tuner",
        **found,
    }


def rendered() -> str:
    """The schema as the committed file has it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _between() -> dict[str, list[dict[str, Any]]]:
    """What holds between the keys of a mapping, by the model's name; the whole file has no name."""
    target = [*_at_most_one(*_TARGETS), _needs("leaf", "flag"), _needs("switch", "flag")]
    target += _at_most_one("leaf", "switch") + _at_most_one("leaf", "join")
    domains = _at_most_one(*DOMAINS)
    bundles = [pair for name in _TARGETS for pair in _at_most_one("bundle", name)]
    steps = {"required": ["step"], "properties": {"step": {"not": {"const": 1}}}}
    no_log = {"not": {"required": ["log"], "properties": {"log": {"const": True}}}}
    positive = {"properties": {"low": {"exclusiveMinimum": 0}}}
    own = {"required": ["profile"], "properties": {"profile": {"const": "own"}}}
    grid = {
        "required": ["search"],
        "properties": {
            "search": {"required": ["sampler"], "properties": {"sampler": {"const": "grid"}}}
        },
    }
    return {
        "": [_one("workload", "workloads"), {"if": grid, "then": _without("seed")}],
        "Budget": [{"anyOf": [_with(name) for name in ("trials", "wall", "engine")]}],
        "Rule": [_one("forbid", "require")],
        "Group": [_one("points", "together", "grids", "parallel")],
        "Parallel": [_one("equals", "divides")],
        "Computed": target,
        "Parameter": [*target, *domains, *bundles],
        "IntegerRange": [{"if": no_log, "else": positive}, {"if": steps, "then": no_log}],
        "FloatRange": [{"if": no_log, "else": positive}, {"if": _with("step"), "then": no_log}],
        "Score": [{"if": own, "then": _with("weights"), "else": _without("weights")}],
        "Search": [
            {
                "if": {
                    "required": ["sampler"],
                    "properties": {"sampler": {"not": {"const": "tpe"}}},
                },
                "then": _without("startup"),
            }
        ],
        "Finalists": [
            {
                "if": {"required": ["count"], "properties": {"count": {"const": 0}}},
                "then": _without("rounds"),
            }
        ],
    }


def _with(name: str) -> dict[str, Any]:
    return {"required": [name]}


def _without(name: str) -> dict[str, Any]:
    return {"not": {"required": [name]}}


def _one(*names: str) -> dict[str, Any]:
    return {"oneOf": [_with(name) for name in names]}


def _at_most_one(*names: str) -> list[dict[str, Any]]:
    return [{"not": {"required": list(pair)}} for pair in combinations(names, 2)]


def _needs(name: str, other: str) -> dict[str, Any]:
    return {"dependentRequired": {name: [other]}}


def _spellings() -> set[str]:
    """How people write the flags that a search space cannot set."""
    found = set(LAUNCHERS)
    found |= {flag.removeprefix("--") for flag in found}
    return found | {flag.lstrip("-").replace("-", "_") for flag in found}


def _plain(value: Any) -> Any:
    """The models' schema as the loader means it.

    Titles only repeat the keys. A key with nothing behind it is refused, so null is no value of a key
    that may be left out. Keys that match no pattern are refused. And where the loader tells kinds
    apart by what is written, a value may well match two of them.
    """
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _plain(item) for key, item in value.items() if not _is_title(key, item)}
    if "oneOf" in kept and "discriminator" not in kept:
        kept["anyOf"] = kept.pop("oneOf")
    if "patternProperties" in kept:
        kept.setdefault("additionalProperties", False)
    if kept.get("default", ...) is None:
        del kept["default"]
        kinds = [kind for kind in kept.pop("anyOf", []) if kind != {"type": "null"}]
        return kinds[0] | kept if len(kinds) == 1 else {"anyOf": kinds, **kept}
    return kept


def _is_title(key: str, item: Any) -> bool:
    """Whether a key is a title; ``title`` as the name of a property has a mapping behind it."""
    return key == "title" and isinstance(item, str)


def main(arguments: list[str]) -> None:
    """Write the schema to the file that is named, or to its place in the checkout."""
    write_atomic(Path(arguments[0]) if arguments else FILE, rendered())


if __name__ == "__main__":
    main(sys.argv[1:])
