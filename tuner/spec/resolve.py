"""From a point to the deployment that is started, and to the rules that speak against it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tuner.spec.checks.engine import json_object
from tuner.spec.context import Context
from tuner.spec.dependencies import computed_order
from tuner.spec.deployment import Deployment
from tuner.spec.document import Engine
from tuner.spec.effects import Effects
from tuner.spec.evaluation import Absent, Value, evaluate, holds, show, whole
from tuner.spec.expression import ExpressionError, parse
from tuner.spec.parameter import Bundle, Computed, Parameter, Rule
from tuner.spec.points import Point, names_at
from tuner.spec.settings import engine_model, model_choice, recipe_name
from tuner.spec.space import SearchSpace


def resolve(space: SearchSpace, point: Point, context: Context) -> Deployment:
    """The deployment of a point.

    Fixed values come first, then parameters, then computed values; what comes later wins over the
    same flag or variable before it.

    Args:
        space: The search space.
        point: A point of it.
        context: The machine and the workloads.

    Raises:
        SpaceError: When the point is not of this space, or a computed value has no value there.
    """
    names = names_at(space, point, context)
    engine = space.document.engine
    effects = Effects(space.files)
    _fix(effects, engine)
    for name, parameter in space.parameters.items():
        if name in point:
            _apply_parameter(space, effects, name, parameter, point)
    for name, value in computed_values(space, names).items():
        item = space.computed[name]
        effects.apply(item, value, _base(space, item))
    chosen = effects.settings
    model = engine_model(engine.model, space.source)
    if "model" in chosen:
        model = model_choice(chosen["model"], space.source)
    return Deployment(
        recipe=recipe_name(chosen.get("recipe", engine.recipe), space.source),
        model=model.name,
        launch=engine.launch,
        argv=tuple(item for items in effects.flags.values() for item in items),
        env=tuple(sorted(effects.env.items())),
        served_name=engine.served_name,
        secrets=tuple(sorted(effects.secrets.items())),
        files=tuple(sorted(effects.used.items())),
        image=chosen.get("image"),
        version=chosen.get("version"),
    )


def violations(space: SearchSpace, point: Point, context: Context) -> list[Rule]:
    """The rules of the search space that a point breaks.

    A rule that needs a parameter which does not exist at the point does not apply.

    Raises:
        SpaceError: When the point is not of this space, or a rule cannot be computed there.
    """
    names = names_at(space, point, context)
    names |= computed_values(space, names)
    return [rule for index, rule in enumerate(space.rules) if _broken(space, index, rule, names)]


def _broken(space: SearchSpace, index: int, rule: Rule, names: Mapping[str, Value]) -> bool:
    key = "forbid" if rule.forbid is not None else "require"
    try:
        return holds(parse(str(rule.forbid or rule.require)), names) is (key == "forbid")
    except Absent:
        return False
    except ExpressionError as error:
        raise space.source.error(
            ("rules", index, key),
            f"the rule: {error}",
            "make it hold for every value that it meets",
        ) from error


def computed_values(space: SearchSpace, names: Mapping[str, Value]) -> dict[str, Any]:
    """The computed values that exist at a point, by name.

    Args:
        space: The search space.
        names: Facts, and the parameters that exist.

    Raises:
        SpaceError: When a value cannot be computed, or its target cannot carry it.
    """
    known = dict(names)
    values: dict[str, Any] = {}
    for name in computed_order(space.document):
        item = space.computed[name]
        try:
            value = whole(evaluate(parse(item.value), known))
            _fits(item, value)
        except Absent:
            continue
        except ExpressionError as error:
            raise space.source.error(
                ("computed", name, "value"),
                f"{name}: {error}",
                "mend the expression, or what it is computed from",
            ) from error
        values[name] = known[name] = value
    return {name: values[name] for name in space.computed if name in values}


def _fits(item: Computed, value: Value) -> None:
    """Check that the target of a computed value can carry what it came to."""
    if item.aim is None:
        return
    wanted = "a list" if item.join is not None else "text" if item.setting is not None else None
    if item.switch is not None:
        wanted = "true or false"
    right = {
        "a list": isinstance(value, tuple),
        "text": isinstance(value, str),
        "true or false": isinstance(value, bool),
    }
    if wanted is not None and not right[wanted]:
        raise ExpressionError(f"the value must be {wanted}, and is {show(value)}")
    if wanted is None and item.leaf is None and isinstance(value, bool | tuple):
        missing = "switch" if isinstance(value, bool) else "join"
        raise ExpressionError(f"{show(value)} needs a {missing} that says how it is given")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ExpressionError("the number does not fit in 64 bits")
    if isinstance(value, float) and item.leaf is not None and not math.isfinite(value):
        raise ExpressionError(f"JSON has no {show(value)}")


def _apply_parameter(
    space: SearchSpace, effects: Effects, name: str, parameter: Parameter, point: Point
) -> None:
    if parameter.bundle is not None:
        _fix(effects, parameter.bundle[str(point[name])])
        return
    effects.apply(parameter, space.choice(name, point[name]), _base(space, parameter))


def _fix(effects: Effects, holder: Engine | Bundle) -> None:
    for flag, value in holder.flags.items():
        effects.fix_flag(flag, value)
    for variable, content in holder.env.items():
        effects.fix_env(variable, content)


def _base(space: SearchSpace, target: Parameter | Computed) -> Mapping[str, Any] | None:
    """The fixed JSON of the flag that a leaf is in."""
    if target.flag is None or target.leaf is None:
        return None
    return json_object(space.document.engine.flags.get(target.flag))
