from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fidelity.loads import Mixed
from tuner.fidelity.asked import Asked, AskedTurn, Stretch
from tuner.fidelity.recurrent import Chunking, Prompt, clip, keeps_state
from tuner.fidelity.simulate import Scheduler, simulate

DATA = Path(__file__).parents[1] / "data" / "fidelity" / "cached_turns.json"
RUNS = json.loads(DATA.read_text())["runs"]
WIDE = Chunking(block=640, unit=128, most=2048)
NARROW = Chunking(block=640, unit=128, most=512)


def cuts(sequence: Prompt, by: Chunking, start: int = 0) -> list[int]:
    """The steps in which a prompt is computed when it runs alone."""
    found = []
    while start < sequence.total:
        tokens = clip(sequence, start, min(by.most, sequence.total - start), by)
        found.append(tokens)
        start += tokens
    return found


def test_a_prompt_is_cut_at_the_last_block_and_at_its_tail() -> None:
    # As the engine's log has it for a prompt of 3413 tokens of which nothing was cached.
    assert cuts(Prompt(3413, 3413), WIDE) == [1920, 1280, 128, 85]
    assert cuts(Prompt(1400, 1400), WIDE) == [1280, 120]


def test_a_junction_is_a_cut() -> None:
    assert cuts(Prompt(2641, 2641, junction=640), WIDE) == [640, 1920, 81]


def test_a_block_wider_than_a_step_is_reached_in_parts() -> None:
    assert cuts(Prompt(1400, 1400), NARROW) == [512, 128, 512, 128, 120]


def test_decoding_is_not_cut() -> None:
    assert clip(Prompt(1400, 1500), 1499, 1, WIDE) == 1


def test_no_room_up_to_the_next_block_is_no_step() -> None:
    assert clip(Prompt(5000, 5000), 640, 600, WIDE) == 0


def test_states_are_kept_at_the_tail_at_junctions_and_while_decoding() -> None:
    assert keeps_state(Prompt(2641, 2641), 2560, WIDE)
    assert not keeps_state(Prompt(2700, 2700), 2560, WIDE)
    assert keeps_state(Prompt(2700, 2700, junction=640), 640, WIDE)
    assert not keeps_state(Prompt(2700, 2700), 2600, WIDE)
    assert keeps_state(Prompt(2700, 2700), 1280, NARROW)
    assert keeps_state(Prompt(2500, 2561), 2560, WIDE)


@given(st.integers(1, 9000), st.integers(0, 14), st.integers(640, 4096))
def test_a_prompt_is_always_computed_whole(prompt: int, junction: int, most: int) -> None:
    by = Chunking(640, 128, most)
    steps = cuts(Prompt(prompt, prompt, junction * 640), by)
    assert sum(steps) == prompt
    assert all(0 < tokens <= most for tokens in steps)


def conversations(run: dict[str, Any]) -> Asked:
    """The load of a recorded run, with the very lengths that the engine reported.

    The model has random weights, so its answers come back in other tokens than were generated.
    """
    output = run["output_tokens"]
    sessions: dict[int, list[AskedTurn]] = {}
    known = 0
    for session, turn, prompt, _ in run["turns"]:
        known = 0 if turn == 0 else known
        node = 1 + 100 * session + 2 * turn
        added = (Stretch(node, prompt - known),)
        sessions.setdefault(session, []).append(AskedTurn(added, output, node + 1, 0.0, None))
        known = prompt
    return Asked("w", tuple(map(tuple, sessions.values())), run["concurrency"], threaded=False)


@pytest.mark.parametrize("run", RUNS, ids=["1, 2048", "4, 512", "8, 2048", "8, 2048, TP 2"])
def test_cached_tokens_are_those_of_a_real_engine(run: dict[str, Any]) -> None:
    scheduler = Scheduler(
        run["max_num_seqs"],
        run["max_num_batched_tokens"],
        blocks=2000,
        block_tokens=640,
        state_tokens=128,
    )
    found = simulate(conversations(run), scheduler, Mixed())
    real = [cached for _, _, _, cached in run["turns"]]
    mine = [record.cached_tokens for record in found.records]
    wrong = [(i, r, m) for i, (r, m) in enumerate(zip(real, mine, strict=True)) if r != m]
    assert len(wrong) <= run["turns_that_differ"], wrong
    assert sum(m or 0 for m in mine) == pytest.approx(sum(real), rel=0.2)
