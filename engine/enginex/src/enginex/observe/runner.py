"""Around vLLM's model runner: where a step begins, where it ends, and who is told.

A step begins when the worker is handed the scheduler's plan and ends when the sampled tokens are there. On a CPU
that is when ``sample_tokens`` returns. On a device the tokens are still being computed then: what it returns waits
for them in ``get_output``, and the step ends when that does. Steps that overlap are counted from the end of the one
before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from enginex.observe.step import Step, step_of

__all__ = ["Observer", "StepTimer", "patch_runner"]


class Observer:
    """Who is told of steps; by itself it takes no note of anything."""

    def begin(self, number: int) -> None:
        """Take note that a step begins."""

    def computed(self, step: Step, logits: Any) -> None:
        """Take note of what a step holds, once its logits are computed (None where there are none)."""

    def done(self, step: Step, seconds: float) -> None:
        """Take note that a step is over."""


class StepTimer:
    """Follows the steps of one process.

    Args:
        observers: Who is told, in this order.
        graph: Says as what kind of graph the present step runs.
        clock: In seconds.
    """

    def __init__(
        self,
        observers: Sequence[Observer],
        graph: Callable[[], str] = lambda: "none",
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._observers = observers
        self._graph = graph
        self._clock = clock
        self._number = 0
        self._began = 0.0
        self._ended = 0.0
        self._step: Step | None = None
        self._ran_as = "none"
        self._experts: int | None = None

    def begin(self) -> None:
        """A plan has come in."""
        self._number += 1
        self._step, self._experts, self._ran_as = None, None, "none"
        for observer in self._observers:
            observer.begin(self._number)
        self._began = self._clock()

    def forward(self) -> None:
        """The model is about to run."""
        self._ran_as = self._graph()

    def routed(self, experts: int) -> None:
        """The step's first layer of routed experts has chosen so many distinct ones."""
        if self._experts is None:
            self._experts = experts

    @property
    def wants_experts(self) -> bool:
        """Whether nobody has said yet how many experts this step touches."""
        return self._experts is None

    def planned(self, runner: Any, plan: Any) -> None:
        """The model has run: say what the step holds."""
        if not plan.total_num_scheduled_tokens:
            self._number -= 1
            return
        prompts = {
            name: runner.requests[name].num_prompt_tokens for name in plan.num_scheduled_tokens
        }
        step = step_of(plan, prompts, self._number)
        step.experts, step.graph = self._experts, self._ran_as
        state = runner.execute_model_state
        for observer in self._observers:
            observer.computed(step, None if state is None else state.logits)
        self._step = step

    def sampled(self, output: Any) -> Any:
        """The tokens are sampled, or will be once ``output.get_output`` has returned."""
        step, began, self._step = self._step, self._began, None
        if step is None:
            return output
        wait = getattr(output, "get_output", None)
        if wait is None:
            self._end(step, began)
            return output

        def get_output(*args: Any, **kwargs: Any) -> Any:
            try:
                return wait(*args, **kwargs)
            finally:
                output.get_output = wait
                self._end(step, began)

        output.get_output = get_output
        return output

    def _end(self, step: Step, began: float) -> None:
        now = self._clock()
        seconds, self._ended = now - max(began, self._ended), now
        for observer in self._observers:
            observer.done(step, seconds)


def patch_runner(module: ModuleType, timer: StepTimer) -> None:
    """Wrap the three methods of vLLM's ``GPUModelRunner`` (which the CPU's inherits) that make a step."""
    cls = module.GPUModelRunner
    execute, forward, sample = cls.execute_model, cls._model_forward, cls.sample_tokens

    def execute_model(runner: Any, plan: Any, *args: Any, **kwargs: Any) -> Any:
        timer.begin()
        result = execute(runner, plan, *args, **kwargs)
        timer.planned(runner, plan)
        return result

    def model_forward(runner: Any, *args: Any, **kwargs: Any) -> Any:
        timer.forward()
        return forward(runner, *args, **kwargs)

    def sample_tokens(runner: Any, *args: Any, **kwargs: Any) -> Any:
        return timer.sampled(sample(runner, *args, **kwargs))

    cls.execute_model = execute_model
    cls._model_forward = model_forward
    cls.sample_tokens = sample_tokens
