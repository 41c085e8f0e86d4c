"""The engine's parts, each a small pure function (or one effect on one cache) that can be replaced by name.

The engine calls these and nothing else where a rule decides something. The defaults are the rules. The fault catalogue
replaces one of them at a time; plain decoding uses none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from eredu_reference import acceptance, adaptive, addresses, clipping, prefix, sources, statistics, terminal, text
from eredu_reference.caches import Cache, Hidden
from eredu_reference.constraint import Constraint, Mask, State, is_complete, mask_of, state_after
from eredu_reference.errors import RequestError
from eredu_reference.frontier import Block, Frontier
from eredu_reference.models import Drafter, Model, Output, feed
from eredu_reference.prefix import PrefixEntry
from eredu_reference.requests import AcceptanceRule, Request, Schedule
from eredu_reference.rows import Row, processed_row
from eredu_reference.sources import Address, RandomSource, Uniform
from eredu_reference.terminal import FinishReason
from eredu_reference.verification import Verification, await_rows


class RoundStep(StrEnum):
    """The steps of a round, in their one order."""

    DRAFT = "draft"
    SUBMIT = "submit"
    BRANCH = "branch"
    WAIT = "wait"
    RESOLVE = "resolve"
    COMMIT = "commit"
    INSTALL = "install"
    PUBLISH = "publish"
    END = "end"


class Along(StrEnum):
    """What the ends of a group's other members make of one."""

    GOES_ON = "goes on"
    SKIPS = "skips the step"
    CANCELLED = "is cancelled with them"
    FAILED = "fails with them"


Entry = TypeVar("Entry")


def check_pair(target: Model, drafter: Drafter) -> None:
    """Raise `RequestError` unless the two models read each other's ids."""
    mine, other = target, drafter.model
    if mine.fingerprint != other.fingerprint:
        raise RequestError(f"tokenizer {other.fingerprint!r} drafts for {mine.fingerprint!r}: their ids differ")
    if mine.vocabulary != other.vocabulary:
        raise RequestError(f"a drafter of {other.vocabulary} ids drafts for a target of {mine.vocabulary}")


def prefill_inputs(prompt: tuple[int, ...]) -> tuple[int, ...]:
    """All of the prompt but its last token, which leads the first verification."""
    return prompt[:-1]


def prefill_chunks(fed: int, count: int, chunk: int) -> list[range]:
    """Which inputs each prefill step feeds: all from number `fed` to number `count`, `chunk` at the most a step."""
    return [range(first, min(first + chunk, count)) for first in range(fed, count, chunk)]


def may_branch(drafter: Drafter, schedule: Schedule, switch: adaptive.Adaptive, rounds: int) -> bool:  # noqa: ARG001
    """Whether a request may draft ahead: its drafter promotes exactly, the schedule allows it, and it still pays."""
    return drafter.exact_promotion and schedule.lookahead and switch.enabled


def verified_inputs(leading: int, proposals: tuple[int, ...]) -> tuple[int, ...]:
    """What the target is fed: the last committed token, which no cache holds yet, then the proposals in order."""
    return (leading, *proposals)


def missing_inputs(known: int, cached: int) -> range:
    """Which of the known tokens a drafter must still be fed, so that its next row is the one behind all of them."""
    return range(cached, known)


def position_of(index: int, cache: Cache) -> int:  # noqa: ARG001
    """Position of the input number `index`: its place among the tokens, never its slot in a cache."""
    return index


def hidden_before(hiddens: Sequence[Hidden], index: int) -> Hidden:
    """The target's hidden state that comes with input number `index`: the one behind the input before it."""
    return hiddens[index - 1] if index > 0 else ()


def usable(logits: Row, vocabulary: int) -> Row:
    """The logits of ids that name tokens."""
    return logits[:vocabulary]


def history_for_row(committed: tuple[int, ...], proposals: tuple[int, ...], index: int) -> tuple[int, ...]:
    """Tokens before row `index` of a block: all that is committed, and the `index` proposals before the row."""
    return committed + proposals[:index]


def mask_for_row(constraint: Constraint | None, state: State, proposals: tuple[int, ...], index: int) -> Mask | None:
    """Mask of row `index` of a block: the grammar behind the `index` proposals before the row."""
    return mask_of(constraint, state_after(constraint, state, proposals[:index]))


def process(request: Request, logits: Row, history: tuple[int, ...], mask: Mask | None) -> Row:
    """Processed distribution of a row of the target or of the drafter."""
    return processed_row(
        logits, history=history, prompt_length=len(request.prompt), sampling=request.sampling, mask=mask
    )


def recorded_row(row: Row, logits: Row, token: int, request: Request) -> Row:  # noqa: ARG001
    """The q of a proposal: the very distribution that it was drawn from."""
    return row


def choose_rule(request: Request) -> AcceptanceRule:
    """Greedy at temperature 0, else the rule that was asked for."""
    return AcceptanceRule.GREEDY if request.sampling.temperature == 0 else request.acceptance


def bonus_row(target_rows: Sequence[Row], draft_rows: Sequence[Row]) -> Row:  # noqa: ARG001
    """The distribution of the bonus: the target's, behind the last proposal."""
    return target_rows[-1]


def guess_address(rule: AcceptanceRule, start: int, count: int) -> Address:
    """Address of a branch's guess at the bonus of the round that starts at `start` and has `count` proposals."""
    return addresses.proposal_address(rule, start, count)


def candidates(proposals: tuple[int, ...], accepted: int, token: int) -> tuple[int, ...]:
    """What a round may emit: the accepted proposals, then the token of the target."""
    return (*proposals[:accepted], token)


def promotes(guess: int, token: int, *, accepted: int, count: int, terminal: bool) -> bool:
    """Whether a branch lives: all proposals accepted, nothing terminal, and the bonus is the guess."""
    return accepted == count and not terminal and guess == token


def reused_tokens(branch_length: int, next_count: int) -> int:
    """Branch tokens that start the next block: those behind the guess, as far as the next round has room."""
    return min(branch_length - 1, next_count)


def promoted_block(branch: Block, reused: int) -> Block:
    """The branch's tokens behind the guess, with the distributions that they were drawn from."""
    return Block(branch.tokens[1 : 1 + reused], branch.rows[1 : 1 + reused], branch.frontier, branch.grammar)


def member_own(entries: Sequence[Entry], place: int) -> Entry:
    """A member's own entry of a list with one entry for each member of a group, in the group's order."""
    return entries[place]


def member_source(by_number: Mapping[int, RandomSource], place: int) -> RandomSource:
    """A member's own source of random numbers: that of its request, by the numbers of the members."""
    return by_number[tuple(by_number)[place]]


def member_kept(kept: Sequence[int], fed: Sequence[int], place: int) -> int:  # noqa: ARG001
    """Inputs of a member that stay, from what stays of each member and what each was fed."""
    return kept[place]


def beside(step: RoundStep, ends: Sequence[str]) -> Along:  # noqa: ARG001
    """What a member does in front of a step, given how others of its group have ended: it goes on."""
    return Along.GOES_ON


def clone(frontier: Frontier) -> Frontier:
    """A frontier that a branch may extend without touching its parent's."""
    return frontier.copy()


def feed_block(model: Model, cache: Cache, tokens: Sequence[int], position_at: Callable[[int], int]) -> list[Output]:
    """Feed several inputs, one after the other, and return the row behind each."""
    return [feed(model, cache, token, position_at(offset)) for offset, token in enumerate(tokens)]


def kept_inputs(emitted: int, count: int) -> int:  # noqa: ARG001
    """How many of the round's k + 1 inputs stay in the target's cache: the last emitted token leads the next round."""
    return emitted


def rollback_target(cache: Cache, length: int) -> None:
    """Take the target's cache back to `length` inputs."""
    cache.rollback(length)


def drafter_keeps(cached: int, trusted: int, known: int) -> int:
    """How long the drafter's cache stays: what is committed and trusted, without the token that leads.

    Args:
        cached: Its length now.
        trusted: Rows whose hidden state came from the target.
        known: Tokens committed by now.
    """
    return min(cached, trusted, known - 1)


def rollback_drafter(frontier: Frontier, length: int) -> None:
    """Take the drafter's frontier back to `length` inputs."""
    frontier.rollback(length)


def install_grammar(
    constraint: Constraint | None,
    state: State,
    proposals: tuple[int, ...],  # noqa: ARG001
    emitted: tuple[int, ...],
) -> State:
    """State of the grammar behind the emitted tokens, whatever was proposed."""
    return state_after(constraint, state, emitted)


def abandoned_length(committed: int, inputs: int) -> int:  # noqa: ARG001
    """Target cache length after a round that is given up: none of its `inputs` stays, and the last token leads."""
    return committed - 1


def cancelled_output(output: tuple[int, ...], proposals: tuple[int, ...]) -> tuple[int, ...]:  # noqa: ARG001
    """The output of a cancelled request: what was published before, nothing of the round that is given up."""
    return output


def cancelled_statistics(
    counted: statistics.Statistics,
    proposals: tuple[int, ...],  # noqa: ARG001
) -> statistics.Statistics:
    """The statistics of a cancelled request: those of its committed rounds."""
    return counted


def cancelled_switch(switch: adaptive.Adaptive, planned: int) -> adaptive.Adaptive:  # noqa: ARG001
    """The adaptive switch of a cancelled request: a branch that was given up says nothing about the others."""
    return switch


def cancelled_finish(finish: FinishReason | None) -> FinishReason:
    """Why a cancelled request ended: as it did, if it had ended already."""
    return FinishReason.CANCELLED if finish is None else finish


def restore_prefix(entry: PrefixEntry, prompt: tuple[int, ...]) -> PrefixEntry | None:
    """A copy of an entry, if the whole of it is a beginning of the prompt."""
    return prefix.copy_entry(entry) if prefix.serves(entry, prompt) else None


def stored_inputs(committed: tuple[int, ...], proposals: tuple[int, ...]) -> tuple[int, ...]:  # noqa: ARG001
    """The inputs that a finished request's cache is published under: all but the last token, which was never fed."""
    return committed[:-1]


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Every part of the engine that a rule speaks about. See each default for what it promises."""

    check_pair: Callable[[Model, Drafter], None] = check_pair
    source_of: Callable[[Request], RandomSource] = sources.source_of
    prefill_inputs: Callable[[tuple[int, ...]], tuple[int, ...]] = prefill_inputs
    prefill_chunks: Callable[[int, int, int], list[range]] = prefill_chunks

    steps: tuple[RoundStep, ...] = tuple(RoundStep)

    budget_of: Callable[[Request, int], tuple[int, bool]] = clipping.budget_of
    clip: Callable[[clipping.Limits], clipping.Clip] = clipping.clip
    may_branch: Callable[[Drafter, Schedule, adaptive.Adaptive, int], bool] = may_branch
    plan_branch: Callable[[clipping.Limits, int, int], int] = clipping.plan_branch
    drafting_ends: Callable[[Constraint | None, State], bool] = is_complete
    missing_inputs: Callable[[int, int], range] = missing_inputs
    position_of: Callable[[int, Cache], int] = position_of
    hidden_before: Callable[[Sequence[Hidden], int], Hidden] = hidden_before
    usable: Callable[[Row, int], Row] = usable
    draft_row: Callable[[Request, Row, tuple[int, ...], Mask | None], Row] = process
    draw_proposal: Callable[[RandomSource, Address, Row], int] = sources.draw
    recorded_row: Callable[[Row, Row, int, Request], Row] = recorded_row

    proposal_address: Callable[[AcceptanceRule, int, int], Address] = addresses.proposal_address
    guess_address: Callable[[AcceptanceRule, int, int], Address] = guess_address
    coin_address: Callable[[AcceptanceRule, int, int], Address] = addresses.coin_address
    replacement_address: Callable[[AcceptanceRule, int], Address] = addresses.replacement_address
    target_address: Callable[[AcceptanceRule, int], Address] = addresses.target_address

    verified_inputs: Callable[[int, tuple[int, ...]], tuple[int, ...]] = verified_inputs
    feed_block: Callable[[Model, Cache, Sequence[int], Callable[[int], int]], list[Output]] = feed_block
    await_rows: Callable[[Verification], tuple[Output, ...]] = await_rows
    history_for_row: Callable[[tuple[int, ...], tuple[int, ...], int], tuple[int, ...]] = history_for_row
    mask_for_row: Callable[[Constraint | None, State, tuple[int, ...], int], Mask | None] = mask_for_row
    target_row: Callable[[Request, Row, tuple[int, ...], Mask | None], Row] = process

    member_rows: Callable[[Sequence[Any], int], Any] = member_own
    member_history: Callable[[Sequence[tuple[int, ...]], int], tuple[int, ...]] = member_own
    member_grammar: Callable[[Sequence[State], int], State] = member_own
    member_source: Callable[[Mapping[int, RandomSource], int], RandomSource] = member_source
    member_kept: Callable[[Sequence[int], Sequence[int], int], int] = member_kept
    beside: Callable[[RoundStep, Sequence[str]], Along] = beside

    choose_rule: Callable[[Request], AcceptanceRule] = choose_rule
    read_coin: Callable[[RandomSource, Address], Uniform] = sources.read_coin
    accepts: acceptance.Accepts = acceptance.accepts
    rejection_length: Callable[..., int] = acceptance.rejection_length
    block_threshold: Callable[..., float] = acceptance.block_threshold
    block_length: Callable[..., int] = acceptance.block_length
    coupled_length: Callable[..., int] = acceptance.coupled_length
    greedy_length: Callable[..., int] = acceptance.greedy_length
    residual: Callable[[Row, Row, float], Row] = acceptance.residual
    draw_replacement: Callable[[RandomSource, Address, Row], int] = sources.draw
    bonus_row: Callable[[Sequence[Row], Sequence[Row]], Row] = bonus_row
    draw_bonus: Callable[[RandomSource, Address, Row], int] = sources.draw
    candidates: Callable[[tuple[int, ...], int, int], tuple[int, ...]] = candidates
    walk: Callable[..., terminal.Walk] = terminal.walk

    clone: Callable[[Frontier], Frontier] = clone
    promotes: Callable[..., bool] = promotes
    reused_tokens: Callable[[int, int], int] = reused_tokens
    promoted_block: Callable[[Block, int], Block] = promoted_block
    observe_branch: Callable[..., adaptive.Adaptive] = adaptive.observe_branch

    kept_inputs: Callable[[int, int], int] = kept_inputs
    rollback_target: Callable[[Any, int], None] = rollback_target
    drafter_keeps: Callable[[int, int, int], int] = drafter_keeps
    rollback_drafter: Callable[[Frontier, int], None] = rollback_drafter
    install_grammar: Callable[..., State] = install_grammar
    count_round: Callable[[statistics.Statistics, statistics.RoundReport], statistics.Statistics] = (
        statistics.count_round
    )
    publish_text: Callable[..., str] = text.publish_text

    abandoned_length: Callable[[int, int], int] = abandoned_length
    cancelled_output: Callable[[tuple[int, ...], tuple[int, ...]], tuple[int, ...]] = cancelled_output
    cancelled_statistics: Callable[[statistics.Statistics, tuple[int, ...]], statistics.Statistics] = (
        cancelled_statistics
    )
    cancelled_switch: Callable[[adaptive.Adaptive, int], adaptive.Adaptive] = cancelled_switch
    cancelled_finish: Callable[[FinishReason | None], FinishReason] = cancelled_finish
    restore_prefix: Callable[[PrefixEntry, tuple[int, ...]], PrefixEntry | None] = restore_prefix
    stored_inputs: Callable[[tuple[int, ...], tuple[int, ...]], tuple[int, ...]] = stored_inputs


PIECES = Pieces()
"""The engine as the rules have it."""
