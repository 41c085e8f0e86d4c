"""What the mutation of single operators once left alive in eredu, and is not equivalent: one test a survivor."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Self

import pytest

from eredu.contract.addresses import coin_keys, draft_key, final_keys, noise_keys
from eredu.contract.errors import OptionError
from eredu.contract.executor import ExecutorTraits, VerificationOutcome
from eredu.contract.options import AcceptanceRule, GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.contract.randomness import RequestRandomness, Role
from eredu.contract.request import GenerationRequest
from eredu.contract.statistics import BranchOutcome, BranchResolution, ClipReason, RequestStatistics
from eredu.contract.terminal import FinishReason, StopSequences, TerminalWatch
from eredu.scheduling.admission import admit
from eredu.scheduling.clipping import Depth
from eredu.scheduling.lookahead import AdaptiveLookahead, planned_length
from eredu.scheduling.resolution import resolve_round
from eredu_conformance.harness.grammar_state import GrammarState
from eredu_conformance.harness.grammars import bracket_grammar
from eredu_conformance.harness.table_pairs import Script
from eredu_conformance.harness.table_schedule import TableSchedule, table_request
from eredu_reference import DfaConstraint
from eredu_spec.addressing import addressing_of
from eredu_spec.randomness import Address, key

RANDOMNESS = RequestRandomness((7, 9))
WIDE = ExecutorTraits(4, max_proposals=64, target_context=4096, drafter_context=None, exact_promotion=True)


class Spelled:
    """A text in which id n is spelled as its digits, one after another."""

    def __init__(self, text: str = "", taken: int = 0) -> None:
        self.text = text
        self.taken = taken

    def advance(self, token: int) -> tuple[Self, bool]:
        return type(self)(self.text + str(token), self.taken), False

    def take(self) -> tuple[Self, str]:
        return type(self)(self.text, len(self.text)), self.text[self.taken :]

    def finish(self) -> tuple[Self, str]:
        return self, ""


def watch(text: Spelled | None) -> TerminalWatch:
    return TerminalWatch(9, 4096, frozenset(), StopSequences(((5, 6),)), text)


# rule: lookahead.planned-length
@pytest.mark.parametrize(
    ("drafter_context", "planned"), [(19, 5), (18, 5), (17, 5), (16, 4), (15, 3), (14, 2), (13, 0), (12, 0)]
)
def test_a_branch_plans_within_the_drafter_s_context(drafter_context: int, planned: int) -> None:
    """10 committed tokens, a block of 3 and the bonus: the next round starts behind 14."""
    traits = ExecutorTraits(4, 64, target_context=99, drafter_context=drafter_context, exact_promotion=True)
    assert planned_length(3, 9, 4, traits, 10, 50) == planned


# rule: adaptive.disable-when-unpaid
def test_one_reused_token_pays_for_one_discarded() -> None:
    reused = BranchResolution(BranchOutcome.PROMOTED, 2, 1, compared=True)
    assert AdaptiveLookahead(1).observe(2, reused).enabled
    assert AdaptiveLookahead(1).observe(3, reused).enabled
    assert not AdaptiveLookahead(1).observe(4, reused).enabled


# rule: adaptive.disable-when-unpaid
def test_a_guess_that_came_true_alone_pays_for_nothing() -> None:
    assert not AdaptiveLookahead(1).observe(1, BranchResolution(BranchOutcome.PROMOTED, 1, 0, compared=True)).enabled


def test_statistics_take_the_times_that_a_round_is_given() -> None:
    round_of_one = partial(
        resolve_round,
        outcome=VerificationOutcome((), 0, 3),
        depth=Depth(0, ClipReason.REQUEST),
        branch=None,
        watch=TerminalWatch(9, 9, frozenset()),
        adaptive=AdaptiveLookahead(None),
        statistics=RequestStatistics(drafting_s=0.5, waiting_s=0.25),
        requested=0,
        committed=1,
        traits=WIDE,
    )
    told, untold = round_of_one(drafting_s=2.0, waiting_s=4.0).statistics, round_of_one().statistics
    assert (told.drafting_s, told.waiting_s) == (2.5, 4.25)
    assert (untold.drafting_s, untold.waiting_s) == (0.5, 0.25)


# rule: adaptive.disable-when-unpaid, statistics.lookahead-balance
@pytest.mark.parametrize(("wrong", "disabled"), [((), 0), (tuple(range(1, 30)), 1)])
def test_turning_lookahead_off_is_counted_once_and_only_then(wrong: tuple[int, ...], disabled: int) -> None:
    script = Script(64, (60, 61), tuple(range(40)))
    options = MtpSchedulerOptions(adaptive_window=1)
    table = TableSchedule(script.target, script.drafter(wrong), options=options)
    table.run(table_request(0, script.prompt, GenerationOptions(max_tokens=24, max_proposals=2)))
    assert table.scheduler.request_statistics(0).lookahead_disabled == disabled


def test_a_watch_without_text_takes_none() -> None:
    assert watch(None).take_text(ended=True) == (watch(None), "")


# rule: terminal.stop-sequences-span-rounds
def test_held_ids_are_told_at_the_end_and_once() -> None:
    held, finish = watch(Spelled()).advance(5)
    assert (finish, held.held) == (None, (5,))
    held, visible = held.take_text(ended=False)
    assert (held.held, visible) == ((5,), "")
    ended, visible = held.take_text(ended=True)
    assert (ended.held, visible) == ((), "5")
    assert ended.take_text(ended=True)[1] == ""


# rule: terminal.stop-sequences-span-rounds
def test_a_held_id_is_told_where_a_shorter_stop_sequence_ends_behind_it() -> None:
    both = replace(watch(Spelled()), stops=StopSequences(((1, 2, 9), (2, 3))))
    finish = None
    for token in (1, 2, 3):
        both, finish = both.advance(token)
    assert finish is FinishReason.STOP
    assert both.take_text(ended=True)[1] == "1"


def admitted(prompt: tuple[int, ...], traits: ExecutorTraits = WIDE, **options: Any) -> TerminalWatch:
    return admit(GenerationRequest(0, prompt, GenerationOptions(**options), RANDOMNESS), traits)


def test_admission_hands_on_what_can_end_the_output() -> None:
    text, grammar = Spelled(), GrammarState.before(bracket_grammar(4))
    options = GenerationOptions(stop_sequences=((1, 2),), eos_ids=frozenset({3}))
    taken = admit(GenerationRequest(0, (1,), options, RANDOMNESS, constraint=grammar, text=text), WIDE)
    assert (taken.text, taken.constraint) == (text, grammar)
    assert (taken.stops.sequences, taken.eos_ids) == (((1, 2),), frozenset({3}))


# rule: terminal.budget-counts-tokens
@pytest.mark.parametrize(
    ("context", "budget", "reason"),
    [(9, 5, "length"), (8, 5, "length"), (7, 5, "length"), (6, 4, "context"), (3, 1, "context")],
)
def test_the_smaller_of_max_tokens_and_room_names_the_end(context: int, budget: int, reason: str) -> None:
    taken = admitted((1, 2, 3), replace(WIDE, target_context=context), max_tokens=5)
    assert taken.budget == budget
    walk = taken.walk((0,) * 9)
    assert (len(walk.emitted), walk.finish) == (budget, reason)


def test_a_prompt_longer_than_the_context_is_refused() -> None:
    with pytest.raises(OptionError, match="the prompt has 3 tokens and the target takes 2"):
        admitted((1, 2, 3), replace(WIDE, target_context=2))


@pytest.mark.parametrize(("prompt", "wrong"), [((0, 3), None), ((-1,), "-1"), ((1, 4), "4")])
def test_ids_of_prompt_and_bias_are_rows_of_the_vocabulary(prompt: tuple[int, ...], wrong: str | None) -> None:
    if wrong is None:
        assert admitted(prompt, sampling=SamplingOptions(logit_bias=dict.fromkeys(prompt, 1.0))).remaining == 256
        return
    with pytest.raises(OptionError, match=f"^prompt token {wrong} is outside the vocabulary of 4 ids"):
        admitted(prompt)


def test_a_bias_of_an_id_that_is_no_row_is_refused() -> None:
    with pytest.raises(OptionError, match=r"^logit_bias id 4 is outside the vocabulary of 4 ids"):
        admitted((1,), sampling=SamplingOptions(logit_bias={4: 1.0}))


# rule: draft.clip, constraints.drafting-stops-at-completion
def test_statistics_name_what_bound_each_round() -> None:
    script = Script(16, (12, 13), tuple(range(12)))
    chain = DfaConstraint(16, {(state, token): state + 1 for state in range(6) for token in range(16)}, frozenset({6}))
    options = GenerationOptions(max_tokens=9, max_proposals=3)
    table = TableSchedule(script.target, script.drafter(), options=MtpSchedulerOptions().with_lookahead(False))
    table.run(
        table_request(0, script.prompt, options),
        table_request(1, script.prompt, options, constraint=GrammarState.before(chain)),
    )
    assert dict(table.scheduler.request_statistics(0).clipped) == {"request": 2, "budget": 1}
    assert dict(table.scheduler.request_statistics(1).clipped) == {"request": 1, "grammar": 1}


# rule: draft.clip
def test_the_next_round_is_clipped_where_it_starts() -> None:
    script = Script(16, (12, 13), tuple(range(12)))
    table = TableSchedule(script.target, script.drafter(context=6), options=MtpSchedulerOptions().with_lookahead(False))
    table.run(table_request(0, script.prompt, GenerationOptions(max_tokens=9, max_proposals=3)))
    drafted = [(event["position"], event["k"], event["clip"]) for event in table.trace if event["event"] == "draft"]
    assert drafted[:2] == [(0, 3, "request"), (4, 1, "drafter-context")]
    assert all(k == 0 and clip == "drafter-context" for position, k, clip in drafted if position > 4)


# rule: randomness.address-to-key
def test_an_address_has_number_0_unless_told_otherwise() -> None:
    assert RANDOMNESS.key(Role.DRAFT, 3) == RANDOMNESS.key(Role.DRAFT, 3, 0) != RANDOMNESS.key(Role.DRAFT, 3, 1)


def of_spec(address: Address) -> tuple[int, int]:
    return key(RANDOMNESS.root, address)


# rule: randomness.by-position, randomness.by-round, randomness.shared-noise, randomness.roles-disjoint
@pytest.mark.parametrize("rule", AcceptanceRule)
@pytest.mark.parametrize(("start", "count"), [(0, 1), (4, 3), (11, 5)])
def test_keys_of_a_round_are_those_of_the_spec_s_addresses(rule: AcceptanceRule, start: int, count: int) -> None:
    addresses = addressing_of(rule.value)
    drafted = [draft_key(RANDOMNESS, rule, round_position=start, index=index) for index in range(count)]
    assert drafted == [of_spec(addresses.proposal(start, index)) for index in range(count)]
    finals = [of_spec(addresses.residual(start + index)) for index in range(count)]
    finals.append(of_spec(addresses.target(start + count)))
    if rule is AcceptanceRule.COUPLED:
        assert noise_keys(RANDOMNESS, start, count + 1) == finals
        return
    coins = [of_spec(addresses.coin(start, index)) for index in range(count)]
    assert coin_keys(RANDOMNESS, rule, start, count) == coins
    assert final_keys(RANDOMNESS, start, count) == finals
