"""Settling a resolved round: commit the caches, install the state, publish. And giving a round up."""

from __future__ import annotations

from eredu_reference.decoding import Decoding, RoundWork, Setting
from eredu_reference.errors import CacheError
from eredu_reference.pieces import Step
from eredu_reference.resolution import Resolution
from eredu_reference.terminal import FinishReason
from eredu_reference.verification import Verification


def settle(setting: Setting, state: Decoding, work: RoundWork, verification: Verification, done: Resolution) -> None:
    """Put a resolution into force, step by step; then let the caches forget what only a failure would need."""
    verification.wait()
    before = len(state.committed)
    for step in setting.pieces.settlement:
        if step is Step.COMMIT:
            commit(setting, state, work, done, before)
        elif step is Step.INSTALL:
            install(setting, state, work, done)
        else:
            publish(setting, state, done)
    _forget(state)
    state.work = None


def commit(setting: Setting, state: Decoding, work: RoundWork, done: Resolution, before: int) -> None:
    """Take the caches to what the emitted tokens allow.

    Args:
        setting: Models and parts.
        state: The request.
        work: The round.
        done: Its resolution.
        before: Tokens committed before the round.
    """
    pieces = setting.pieces
    kept = pieces.kept_inputs(len(done.walk.emitted), len(work.block.tokens))
    pieces.rollback_target(state.target_cache, before - 1 + kept)
    frontier, known = state.frontier, before + len(done.walk.emitted)
    if done.promoted is not None:
        frontier = done.promoted.frontier
        known += len(done.promoted.tokens)
    if frontier is not None:
        trusted = len(frontier.cache) if done.promoted is not None else frontier.trusted
        pieces.rollback_drafter(frontier, pieces.drafter_keeps(len(frontier.cache), trusted, known))
    drafter_length = None if frontier is None else len(frontier.cache)
    setting.say(state, "commit", kept=kept, target_length=len(state.target_cache), drafter_length=drafter_length)


def install(setting: Setting, state: Decoding, work: RoundWork, done: Resolution) -> None:
    """Replace the request's state by the one behind the round."""
    kept = setting.pieces.kept_inputs(len(done.walk.emitted), len(work.block.tokens))
    state.hiddens += tuple(output.hidden for output in done.outputs[:kept])
    state.committed += done.walk.emitted
    state.grammar = done.grammar
    state.promoted = done.promoted
    if done.promoted is not None:
        state.frontier = done.promoted.frontier
    state.adaptive = done.adaptive
    state.books = setting.pieces.count_round(state.books, done.report)
    state.reports += (done.report,)
    state.finish = done.walk.finish
    setting.say(state, "install", committed=len(state.committed), books=state.books.as_dict())


def publish(setting: Setting, state: Decoding, done: Resolution) -> None:
    """Show the round's tokens and the text they add."""
    before, emitted = state.published, done.walk.emitted
    after = before + emitted
    delta = setting.pieces.publish_text(state.request, before, after, finished=done.walk.finish is not None)
    state.published = after
    state.text += delta
    setting.say(state, "publish", tokens=list(emitted), text=delta)


def _forget(state: Decoding) -> None:
    """Promise that no rollback will go below the committed tokens."""
    settled = len(state.committed) - 1
    state.target_cache.settle(settled)
    if state.frontier is not None:
        state.frontier.cache.settle(min(settled, state.frontier.trusted, len(state.frontier.cache)))


def abandon(setting: Setting, state: Decoding) -> None:
    """Give the round in progress up: wait for what runs, put the caches back, drop block and branch."""
    pieces, work = setting.pieces, state.work
    inputs = 0
    if work is not None and work.verification is not None:
        inputs = len(work.verification.inputs)
        try:
            work.verification.wait()
        except CacheError:
            inputs = 0
    length = pieces.abandoned_length(len(state.committed), inputs)
    if len(state.target_cache) > length:
        pieces.rollback_target(state.target_cache, length)
    frontier = state.frontier
    if frontier is not None:
        keeps = pieces.drafter_keeps(len(frontier.cache), frontier.trusted, len(state.committed))
        pieces.rollback_drafter(frontier, keeps)
    state.promoted = None
    state.work = None


def cancel(setting: Setting, state: Decoding) -> None:
    """End a request on demand: its round is given up, and what was published before it stands."""
    proposals = () if state.work is None else state.work.block.tokens
    output = setting.pieces.cancelled_output(state.published, proposals)
    state.books = setting.pieces.cancelled_books(state.books, proposals)
    abandon(setting, state)
    state.published = output
    if state.finish is None:
        state.finish = FinishReason.CANCELLED
    setting.events.append({"event": "cancel", "target_length": len(state.target_cache)})
