"""Cancellation in every phase and from callbacks; pipelined plain decoding; closing leaves nothing running."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from eredu.contract.events import RequestFinished, TokensCommitted
from eredu.contract.options import MtpSchedulerOptions
from eredu.results import GenerationResult
from eredu.scheduling.phase import Phase
from eredu.scheduling.scheduler import SpeculativeScheduler

Decode = Callable[..., GenerationResult]
Make = Callable[..., Any]
LIVE = [phase for phase in Phase if phase not in {Phase.COMPLETED, Phase.CANCELLED, Phase.RESOLUTION}]
SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.9, "acceptance": "rejection"},
    {"temperature": 0.9, "acceptance": "block"},
    {"temperature": 0.0},
]


def spied(executor: Any) -> list[Any]:
    """The sequences that the executor opens from now on."""
    opened: list[Any] = []
    original = executor.open

    def open_(request: Any) -> Any:
        opened.append(original(request))
        return opened[-1]

    executor.open = open_
    return opened


def assert_at_rest(sequence: Any) -> None:
    """Both caches at the committed boundary (the drafter's may lag), nothing running, and what is held is right."""
    boundary = len(sequence.tokens) - 1
    assert sequence.target.length <= boundary
    assert all(layer.offset == sequence.target.length for layer in sequence.target.layers)
    assert sequence.running == []
    assert sequence.ahead is None
    if sequence.drafter is not None:
        assert sequence.drafter.cache.length <= boundary
        assert sequence.drafter.latest is None


def assert_holds(executor: Any, sequence: Any, side: str) -> None:
    cache = sequence.target if side == "target" else sequence.drafter.cache
    model = executor.target if side == "target" else executor.drafter.model
    fresh = model.new_cache()
    for token in sequence.tokens[: cache.length]:
        fresh.feed(model.model, mx.array([token], dtype=mx.uint32))
    for mine, other in zip(cache.layers, fresh.layers, strict=True):
        for name in ("keys", "values"):
            if cache.length:
                np.testing.assert_allclose(
                    np.array(getattr(mine, name)[..., : cache.length, :]),
                    np.array(getattr(other, name)[..., : cache.length, :]),
                    atol=1e-5,
                )


# rule: cancellation.submitted-waits, cancellation.nothing-submitted-at-once, rollback.drafter-follows
@pytest.mark.parametrize("phase", LIVE)
@pytest.mark.parametrize("settings", SETTINGS, ids=["rejection", "block", "greedy"])
@pytest.mark.parametrize("after", [0, 9])
def test_cancelling_in_any_phase_leaves_the_committed_boundary(
    llama: Any, lend: Make, make_request: Make, phase: Phase, settings: dict[str, Any], after: int
) -> None:
    executor = lend(llama, False)
    opened = spied(executor)
    schedule = MtpSchedulerOptions(adaptive_lookahead=False, prefill_chunk=2)
    events: list[Any] = []
    scheduler = SpeculativeScheduler[Any, Any, Any](executor, options=schedule, sink=events.append)
    scheduler.add(make_request(0, max_proposals=3, **settings))
    scheduler.add(make_request(1, max_proposals=2, max_tokens=20, **settings))
    turns = 0
    while scheduler.phase(0) is not phase or (
        after and len(scheduler.output(0)) < after and phase is not Phase.PREFILL
    ):
        scheduler.turn()
        turns += 1
        assert turns < 500
    before = scheduler.output(0)
    scheduler.cancel(0)
    assert scheduler.phase(0) is Phase.CANCELLED
    assert scheduler.output(0) == before
    assert_at_rest(opened[0])
    assert opened[0].tokens[5:] == list(before)
    if phase is not Phase.PREFILL:
        assert opened[0].target.length == len(opened[0].tokens) - 1
    assert_holds(executor, opened[0], "target")
    assert_holds(executor, opened[0], "draft")
    scheduler.run()
    assert_at_rest(opened[1])
    alone = SpeculativeScheduler[Any, Any, Any](lend(llama, False))
    alone.add(make_request(1, max_proposals=2, max_tokens=20, **settings))
    alone.run()
    assert scheduler.output(1) == alone.output(1)
    told = [event for event in events if isinstance(event, TokensCommitted) and event.request == 0]
    assert tuple(token for event in told for token in event.tokens) == before


# rule: cancellation.from-callback
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("settings", SETTINGS, ids=["rejection", "block", "greedy"])
def test_cancelling_from_a_callback_takes_effect_after_the_commit(
    llama: Any, lend: Make, make_request: Make, settings: dict[str, Any], *, plain: bool
) -> None:
    executor = lend(llama, plain)
    opened = spied(executor)
    seen: list[int] = []

    def sink(event: Any) -> None:
        if isinstance(event, TokensCommitted):
            seen.extend(event.tokens)
            if len(seen) >= 6:
                scheduler.cancel(0)
        if isinstance(event, RequestFinished):
            assert str(event.reason) == "cancelled"

    scheduler = SpeculativeScheduler[Any, Any, Any](executor, sink=sink)
    scheduler.add(make_request(0, max_proposals=0 if plain else 3, **settings))
    scheduler.run()
    assert scheduler.output(0) == tuple(seen)
    assert 6 <= len(seen) <= 9
    assert_at_rest(opened[0])
    assert opened[0].target.length == len(opened[0].tokens) - 1
    assert_holds(executor, opened[0], "target")


# rule: placement.wait-before-read
@pytest.mark.parametrize("plain", [True, False])
def test_closing_a_schedule_waits_for_everything(llama: Any, lend: Make, make_request: Make, *, plain: bool) -> None:
    executor = lend(llama, plain)
    opened = spied(executor)
    scheduler = SpeculativeScheduler[Any, Any, Any](executor, options=MtpSchedulerOptions(adaptive_lookahead=False))
    for index in range(4):
        scheduler.add(make_request(index, temperature=0.8, max_proposals=0 if plain else index))
    for _ in range(23):
        scheduler.turn()
    scheduler.close()
    assert scheduler.is_done
    for sequence in opened:
        assert_at_rest(sequence)


# rule: commit.leading-token-uncached, rollback.drafter-follows
@pytest.mark.parametrize("plain", [True, False])
def test_a_finished_request_leaves_its_caches_at_the_boundary(
    llama: Any, lend: Make, make_request: Make, *, plain: bool
) -> None:
    free = SpeculativeScheduler[Any, Any, Any](lend(llama, True))
    free.add(make_request(0, temperature=0.0, max_proposals=0, max_tokens=30))
    free.run()
    for stop in (1, 5, 12):
        eos = frozenset({free.output(0)[stop]})
        executor = lend(llama, plain)
        opened = spied(executor)
        scheduler = SpeculativeScheduler[Any, Any, Any](executor)
        scheduler.add(make_request(0, temperature=0.0, max_proposals=0 if plain else 4, max_tokens=30, eos_ids=eos))
        scheduler.run()
        assert str(scheduler.finish(0)) == "eos"
        assert_at_rest(opened[0])
        assert opened[0].target.length == len(opened[0].tokens) - 1
        assert_holds(executor, opened[0], "target")


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("penalty", [0.0, 0.8])
def test_pipelining_changes_no_plain_token(
    llama: Any, lend: Make, make_request: Make, temperature: float, penalty: float
) -> None:
    """With one token in flight ahead of the host, and without."""
    outputs = []
    for ahead in (True, False):
        executor = lend(llama, True)
        if not ahead:
            original = executor.submit
            executor.submit = lambda group, original=original: original([replace(each, more=False) for each in group])
        scheduler = SpeculativeScheduler[Any, Any, Any](executor)
        scheduler.add(
            make_request(0, temperature=temperature, frequency_penalty=penalty, repetition_penalty=1.1, max_proposals=0)
        )
        scheduler.run()
        outputs.append(scheduler.output(0))
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 64


# rule: placement.wait-before-read, commit.failure-changes-nothing
def test_a_failure_while_drafting_ends_one_request_and_waits(llama: Any, lend: Make, make_request: Make) -> None:
    executor = lend(llama, False)
    opened = spied(executor)
    original, calls = executor.drafter._feed_frontier, [0]

    def failing(state: Any, history: Any, block: Any) -> Any:
        calls[0] += history is opened[0]
        if history is opened[0] and calls[0] == 8:
            raise RuntimeError("planted")
        return original(state, history, block)

    executor.drafter._feed_frontier = failing
    scheduler = SpeculativeScheduler[Any, Any, Any](executor)
    scheduler.add(make_request(0, temperature=0.9))
    scheduler.add(make_request(1, temperature=0.9, max_tokens=24))
    with pytest.raises(RuntimeError, match="planted"):
        scheduler.run()
    assert str(scheduler.finish(0)) == "failed"
    assert_at_rest(opened[0])
    scheduler.run()
    assert len(scheduler.output(1)) == 24
