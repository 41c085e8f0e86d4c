"""Drafting: proposals of the next block, and branches ahead of a verification. One loop serves both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eredu_reference.acceptance import greedy_token
from eredu_reference.caches import Hidden
from eredu_reference.constraint import mask_of, state_after
from eredu_reference.decoding import Decoding, RoundWork, Setting
from eredu_reference.frontier import Block, Frontier
from eredu_reference.models import Drafter, feed
from eredu_reference.requests import AcceptanceRule
from eredu_reference.rows import Row, softmax
from eredu_reference.sources import Address


def draft_block(setting: Setting, state: Decoding) -> None:
    """Draft the next block: what was promoted, topped up to the round's k, or less where the grammar completes."""
    pieces, start = setting.pieces, len(state.output)
    clip = pieces.clip(setting.limits(state.request, len(state.committed)))
    block = Block((), (), state.frontier, state.grammar) if state.promoted is None else state.promoted
    work = RoundWork(clip, block, len(state.committed))
    state.work = work
    setting.say(state, "plan", start=start, count=clip.count, reason=clip.reason.value, reused=len(block.tokens))
    work.block = extend(
        setting, state, state.committed, block, clip.count, lambda i: pieces.proposal_address(state.rule, start, i)
    )
    setting.say(state, "draft", proposals=list(work.block.tokens))


def draft_branch(setting: Setting, state: Decoding) -> None:
    """Draft ahead of the verification in flight, from a clone of the block's frontier, if a branch is worth it."""
    work = state.round
    pieces, drafter, frontier = setting.pieces, setting.drafter, work.block.frontier
    if drafter is None or frontier is None:
        return
    if pieces.drafting_ends(state.request.constraint, work.block.grammar):
        return
    if not pieces.may_branch(drafter, setting.schedule, state.adaptive, state.statistics.rounds):
        return
    start, count = len(state.output), len(work.block.tokens)
    limits = setting.limits(state.request, len(state.committed))
    work.planned = pieces.plan_branch(limits, count, state.request.branch_length)
    if work.planned == 0:
        return

    def address_at(index: int) -> Address:
        if index == 0:
            return pieces.guess_address(state.rule, start, count)
        return pieces.proposal_address(state.rule, start + count + 1, index - 1)

    setting.say(state, "branch-plan", count=work.planned)
    empty = Block((), (), pieces.clone(frontier), work.block.grammar)
    base = state.committed + work.block.tokens
    work.branch = extend(setting, state, base, empty, work.planned, address_at)
    setting.say(state, "branch", tokens=list(work.branch.tokens))


def extend(
    setting: Setting,
    state: Decoding,
    base: tuple[int, ...],
    block: Block,
    count: int,
    address_at: Callable[[int], Address],
) -> Block:
    """Propose until the block has `count` tokens or its grammar is complete.

    Args:
        setting: Drafter and parts.
        state: The request.
        base: The tokens before the block.
        block: What was proposed already; its frontier is advanced in place.
        count: Proposals wanted.
        address_at: Address of proposal number i.
    """
    while len(block.tokens) < count and not setting.pieces.drafting_ends(state.request.constraint, block.grammar):
        block = propose(setting, state, base, block, address_at(len(block.tokens)))
    return block


def propose(setting: Setting, state: Decoding, base: tuple[int, ...], block: Block, address: Address) -> Block:
    """Add one proposal to a block."""
    pieces, drafter, frontier = setting.pieces, setting.drafter, block.frontier
    assert drafter is not None, "proposals need a drafter; the clip allows none without one"
    assert frontier is not None, "a drafter has a frontier from the request's beginning"
    known = base + block.tokens
    catch_up(setting, state, frontier, known)
    logits = pieces.usable(drafter.model.logits(frontier.cache), setting.target.vocabulary)
    row = proposal_row(setting, state, drafter, logits, known, block)
    if state.rule is AcceptanceRule.GREEDY:
        token = greedy_token(row)
    else:
        token = pieces.draw_proposal(state.source, address, row)
    return replace(
        block,
        tokens=(*block.tokens, token),
        rows=(*block.rows, pieces.recorded_row(row, logits, token, state.request)),
        grammar=state_after(state.request.constraint, block.grammar, (token,)),
    )


def proposal_row(
    setting: Setting, state: Decoding, drafter: Drafter, logits: Row, known: tuple[int, ...], block: Block
) -> Row:
    """The distribution that a proposal is drawn from, shape (V,)."""
    if drafter.raw:
        return softmax(logits)
    mask = mask_of(state.request.constraint, block.grammar)
    return setting.pieces.draft_row(state.request, logits, known, mask)


def catch_up(setting: Setting, state: Decoding, frontier: Frontier, known: tuple[int, ...]) -> None:
    """Feed the drafter every known token that it has not taken yet.

    A drafter that reads hidden state gets the target's, as far as it exists, and its own behind that.
    """
    pieces, drafter = setting.pieces, setting.drafter
    assert drafter is not None, "only a drafter catches up"
    for index in pieces.missing_inputs(len(known), len(frontier.cache)):
        from_target = index <= len(state.hiddens)
        hidden: Hidden = ()
        if drafter.reads_hidden:
            own = drafter.model.hidden
            hidden = pieces.hidden_before(state.hiddens, index) if from_target else own(frontier.cache)
        feed(drafter.model, frontier.cache, known[index], pieces.position_of(index, frontier.cache), hidden)
        if frontier.trusted == index and (from_target or not drafter.reads_hidden):
            frontier.trusted = index + 1
