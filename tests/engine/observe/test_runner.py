from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

from observe.test_step import plan

from enginex.observe.runner import Observer, StepTimer, patch_runner
from enginex.observe.step import Step


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Seen(Observer):
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.steps: list[tuple[Step, float]] = []

    def begin(self, number: int) -> None:
        self.calls.append(f"begin {number}")

    def computed(self, step: Step, logits: Any) -> None:
        self.calls.append(f"computed {step.number} {logits}")

    def done(self, step: Step, seconds: float) -> None:
        self.calls.append(f"done {step.number}")
        self.steps.append((step, seconds))


class Waiting:
    """What a device's runner returns: tokens that are there once somebody has waited for them."""

    def __init__(self, clock: Clock, at: float) -> None:
        self._clock, self._at = clock, at

    def get_output(self) -> str:
        self._clock.now = max(self._clock.now, self._at)
        return "tokens"


def make(clock: Clock, *, output: Any = "tokens") -> tuple[Any, Seen, StepTimer]:
    class Runner:
        execute_model_state: Any = None

        def __init__(self) -> None:
            self.requests = {"a": SimpleNamespace(num_prompt_tokens=4)}

        def execute_model(self, planned: Any) -> None:
            if planned.total_num_scheduled_tokens:
                self._model_forward()
                self.execute_model_state = SimpleNamespace(logits="logits")

        def _model_forward(self) -> None:
            clock.now += 2

        def sample_tokens(self) -> Any:
            clock.now += 1
            return output() if callable(output) else output

    module = ModuleType("runner")
    module.GPUModelRunner = Runner  # type: ignore[attr-defined] - as vLLM's module has it
    seen = Seen()
    timer = StepTimer([seen], lambda: "full", clock)
    patch_runner(module, timer)
    return Runner(), seen, timer


def decoding() -> Any:
    planned = plan({}, {"a": (9, 1)})
    planned.total_num_scheduled_tokens = 1
    return planned


def test_a_step_is_told_in_order_with_its_time_and_its_graph() -> None:
    runner, seen, timer = make(Clock())
    runner.execute_model(decoding())
    timer.routed(8)
    assert runner.sample_tokens() == "tokens"
    assert seen.calls == ["begin 1", "computed 1 logits", "done 1"]
    step, seconds = seen.steps[0]
    assert seconds == 3
    assert step.graph == "full"
    assert step.kv_tokens == 10


def test_only_the_first_layers_experts_count() -> None:
    clock = Clock()
    runner, seen, timer = make(clock)
    forward = type(runner)._model_forward

    def routes(self: Any) -> None:
        forward(self)
        timer.routed(8)
        assert not timer.wants_experts
        timer.routed(99)

    type(runner)._model_forward = routes
    runner.execute_model(decoding())
    runner.sample_tokens()
    assert seen.steps[0][0].experts == 8
    timer.begin()
    assert timer.wants_experts


def test_an_empty_plan_is_no_step() -> None:
    runner, seen, _ = make(Clock())
    empty = plan({}, {})
    empty.total_num_scheduled_tokens = 0
    runner.execute_model(empty)
    runner.sample_tokens()
    assert seen.steps == []
    runner.execute_model(decoding())
    runner.sample_tokens()
    assert seen.steps[0][0].number == 1


def test_a_device_is_waited_for_and_overlapping_steps_are_not_counted_twice() -> None:
    clock = Clock()
    ends = iter([110.0, 118.0])
    runner, seen, _ = make(clock, output=lambda: Waiting(clock, next(ends)))
    runner.execute_model(decoding())
    first = runner.sample_tokens()  # at 103
    runner.execute_model(decoding())
    second = runner.sample_tokens()  # at 106
    assert seen.steps == []
    assert first.get_output() == "tokens"
    assert second.get_output() == "tokens"
    assert [seconds for _, seconds in seen.steps] == [10, 8]
    first.get_output()  # once more: not a step
    assert len(seen.steps) == 2
