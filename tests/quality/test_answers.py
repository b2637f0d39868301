from __future__ import annotations

import asyncio
import json

import pytest

from tests.quality.conftest import Serve
from tuner.load.endpoint import Endpoint
from tuner.quality.agreement import agree
from tuner.quality.answers import (
    PROMPTS,
    Sheet,
    Spoken,
    ask_alone,
    ask_crowd,
    non_finite,
    sheet_from_json,
    sheet_json,
)
from tuner.quality.asking import Asker
from tuner.spec.quality import Answers

pytestmark = pytest.mark.slow


def ask(endpoint: Endpoint, *, logprobs: bool = True) -> Sheet:
    async def both() -> Sheet:
        asker = Asker(endpoint, long_text="a long text " * 40)
        try:
            alone = await ask_alone(asker, 8, logprobs=logprobs)
            return {**alone, **await ask_crowd(asker, 8, logprobs=logprobs)}
        finally:
            await asker.close()

    return asyncio.run(both())


def test_each_prompt_is_asked_alone_and_in_a_crowd(serve: Serve) -> None:
    sheet = ask(serve())
    names = [*PROMPTS, "long"]
    assert set(sheet) == {f"{how}/{name}" for how in ("alone", "crowd") for name in names}
    for spoken in sheet.values():
        assert len(spoken.tokens) == len(spoken.logprobs) == len(spoken.likely) == 8
        assert "".join(spoken.tokens) == spoken.text
    assert len({spoken.text for spoken in sheet.values()}) == len(names)
    assert non_finite(sheet) is None


def test_answers_survive_the_ledger(serve: Serve) -> None:
    sheet = ask(serve())
    again = sheet_from_json(json.loads(json.dumps(sheet_json(sheet))))
    assert agree(again, sheet, Answers()).problem is None
    assert agree(again, sheet, Answers()).worst == pytest.approx(0, abs=1e-5)


def test_without_log_probabilities_there_is_the_text(serve: Serve) -> None:
    sheet = ask(serve(), logprobs=False)
    assert all(spoken.text and not spoken.tokens for spoken in sheet.values())


@pytest.mark.parametrize("impl", ["loop", "tokenwise", "bmm"])
def test_kernels_that_round_otherwise_agree(serve: Serve, impl: str) -> None:
    reference, other = ask(serve()), ask(serve(ENGINEX_MOE_TINY_IMPL=impl))
    found = agree(other, reference, Answers())
    assert found.problem is None
    assert found.worst is not None
    assert found.worst > 0


@pytest.mark.parametrize("match", ["exact", "first", "distance"])
def test_a_kernel_that_computes_something_else_does_not(serve: Serve, match: str) -> None:
    reference, wrong = ask(serve()), ask(serve(ENGINEX_MOE_TINY_IMPL="wrong"))
    assert agree(wrong, reference, Answers(match=match)).problem  # type: ignore[arg-type]  # one of three


def test_no_number_is_told_with_its_place(serve: Serve) -> None:
    assert (non_finite(ask(serve("nan-logprobs"))) or "").startswith("answer alone/")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), -9999.0])
def test_what_no_greedy_token_can_have(value: float) -> None:
    assert non_finite({"x": Spoken("ab", ("a", "b"), (-1.0, value))}) is not None
    assert non_finite({"x": Spoken("a", ("a",), (-30.0,))}) is None
