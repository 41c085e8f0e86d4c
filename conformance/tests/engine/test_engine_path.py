"""Same path: greedy and coupled decoding give the tokens of plain decoding, whatever the switches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from eredu.contract.options import MtpSchedulerOptions
from eredu.engine.mlx_backend import MlxBackend
from eredu.loaded import LoadedModel
from eredu.mlx.placement import Placement
from eredu.prepared import PreparedRequest
from eredu.results import GenerationResult

Decode = Callable[..., GenerationResult]

RULES: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "coupled": {"temperature": 0.9, "acceptance": "coupled"},
}
SAMPLED: dict[str, dict[str, Any]] = {
    "rejection": {"temperature": 0.9, "acceptance": "rejection"},
    "block": {"temperature": 0.9, "acceptance": "block"},
}
SCHEDULES = {
    "off": MtpSchedulerOptions(lookahead=False),
    "on": MtpSchedulerOptions(adaptive_lookahead=False),
    "adaptive": MtpSchedulerOptions(adaptive_window=3),
    "tight": MtpSchedulerOptions(adaptive_lookahead=False, max_in_flight=1, max_branches=1),
}


def check_statistics(result: GenerationResult) -> None:
    result.statistics.check()
    assert result.statistics.emitted == len(result.tokens)


# rule: verify.greedy-argmax, verify.coupled-shared-vector, rollback.exact-state
@pytest.mark.parametrize("rule", RULES)
def test_200_tokens_are_the_plain_ones_with_rejections_at_every_index(pair: Any, decode: Decode, rule: str) -> None:
    plain = decode(pair, plain=True, max_tokens=200, **RULES[rule])
    lengths: set[int] = set()
    for count, schedule in ((4, "on"), (7, "adaptive")):
        result = decode(pair, max_tokens=200, max_proposals=count, schedule=SCHEDULES[schedule], **RULES[rule])
        assert result.tokens == plain.tokens
        assert len(result.tokens) == 200
        check_statistics(result)
        lengths |= {n for n, rounds in enumerate(result.statistics.rounds_by_length) if rounds}
    if rule == "coupled":
        assert lengths >= {0, 1, 2, 3, 4}, "the assistant was rejected too rarely for this test to mean anything"


# rule: lookahead.exact-promotion-only, lookahead.clone-of-frontier, rollback.drafter-follows
@pytest.mark.parametrize("rule", [*RULES, *SAMPLED])
def test_lookahead_changes_no_token_and_is_used(llama: Any, decode: Decode, rule: str) -> None:
    settings = (RULES | SAMPLED)[rule]
    results = {
        name: decode(llama, max_tokens=90, max_proposals=3, schedule=schedule, **settings)
        for name, schedule in SCHEDULES.items()
    }
    assert len({result.tokens for result in results.values()}) == 1
    for result in results.values():
        check_statistics(result)
    assert results["on"].statistics.lookahead_reused > 0
    assert results["on"].statistics.lookahead_discarded > 0
    assert results["off"].statistics.lookahead_blocks == 0


# rule: promotion.top-up, draft.frontier-exact
@pytest.mark.parametrize("depth", [2, 3, 9])
def test_any_depth_of_lookahead_gives_the_same_tokens(llama: Any, decode: Decode, depth: int) -> None:
    for settings in (SAMPLED["block"], SAMPLED["rejection"]):
        off = decode(llama, max_tokens=60, max_proposals=4, schedule=SCHEDULES["off"], **settings)
        on = decode(llama, max_tokens=60, max_proposals=4, lookahead_depth=depth, schedule=SCHEDULES["on"], **settings)
        assert on.tokens == off.tokens
        assert on.statistics.lookahead_promoted > 0


@pytest.mark.parametrize("rule", [*RULES, *SAMPLED])
@pytest.mark.parametrize("length", [1, 2])
def test_the_shortest_prompts_work(llama: Any, decode: Decode, rule: str, length: int) -> None:
    settings = (RULES | SAMPLED)[rule]
    result = decode(llama, prompt=(3, 9)[:length], max_tokens=20, **settings)
    assert len(result.tokens) == 20
    if rule in RULES:
        assert result.tokens == decode(llama, plain=True, prompt=(3, 9)[:length], max_tokens=20, **settings).tokens


# rule: placement.changes-no-token, placement.producer-before-consumer
@pytest.mark.parametrize("kind", ["one-stream", "two-streams", "two-devices"])
def test_placement_changes_no_token(llama: Any, decode: Decode, placements: dict[str, Placement], kind: str) -> None:
    for settings in (RULES | SAMPLED).values():
        here = decode(llama, placement=placements[kind], schedule=SCHEDULES["on"], max_tokens=40, **settings)
        assert here.tokens == decode(llama, max_tokens=40, **settings).tokens


# rule: randomness.address-to-key
def test_the_seed_of_a_call_reaches_every_request_differently(llama: Any, make_options: Callable[..., Any]) -> None:
    model = LoadedModel(MlxBackend(llama[0], Placement.choose()))
    request = PreparedRequest(prompt=(1, 2), options=make_options(temperature=1.0, seed=None, max_tokens=24))
    first, second = (model.generate_prepared_chat_mtp_batch([request] * 2, llama[1], seed=seed) for seed in (3, 4))
    again = model.generate_prepared_chat_mtp_batch([request] * 2, llama[1], seed=3)
    outputs = [result.tokens for batch in (first, second) for result in batch.results]
    assert len(set(outputs)) == 4
    assert [result.tokens for result in again.results] == outputs[:2]


def test_a_pair_loaded_here_serves_other_threads(llama: Any, decode: Decode) -> None:
    expected = [decode(llama, temperature=0.9, acceptance=rule, max_tokens=24).tokens for rule in ("coupled", "block")]
    found: dict[int, list[tuple[int, ...]]] = {}
    errors: list[BaseException] = []

    def use(number: int) -> None:
        try:
            found[number] = [
                decode(llama, temperature=0.9, acceptance=rule, max_tokens=24).tokens for rule in ("coupled", "block")
            ]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert found == {0: expected, 1: expected}
