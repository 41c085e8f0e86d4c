"""Settling a resolved round: commit the caches, install the state, publish. And giving a round up."""

from __future__ import annotations

from contextlib import suppress

from eredu_reference.decoding import Decoding, RoundWork, Setting
from eredu_reference.errors import ReferenceFailure


def commit(setting: Setting, state: Decoding) -> None:
    """Take the caches to what the emitted tokens allow; nothing of the request's state changes yet."""
    pieces, work, done = setting.pieces, state.round, state.round.resolved
    if work.verification is not None:
        work.verification.wait()
    kept = kept_of(setting, work)
    pieces.rollback_target(state.target_cache, work.committed - 1 + kept)
    frontier, known = state.frontier, work.committed + len(done.emitted)
    if done.promoted is not None:
        frontier = done.promoted.frontier
        known += len(done.promoted.tokens)
    if frontier is not None:
        trusted = len(frontier.cache) if done.promoted is not None else frontier.trusted
        pieces.rollback_drafter(frontier, pieces.drafter_keeps(len(frontier.cache), trusted, known))
    drafter_length = None if frontier is None else len(frontier.cache)
    setting.say(state, "commit", kept=kept, target_length=len(state.target_cache), drafter_length=drafter_length)


def kept_of(setting: Setting, work: RoundWork) -> int:
    """How many inputs of a resolved round stay: what its own outcome says, whatever its company emits."""
    pieces, company = setting.pieces, [other for other in work.company or [work] if other.resolution is not None]
    kept = [pieces.kept_inputs(len(other.resolved.emitted), len(other.block.tokens)) for other in company]
    fed = [1 + len(other.block.tokens) for other in company]
    return pieces.member_kept(kept, fed, next(place for place, other in enumerate(company) if other is work))


def install(setting: Setting, state: Decoding) -> None:
    """Replace the request's state by the one behind the round."""
    work, done = state.round, state.round.resolved
    kept = kept_of(setting, work)
    state.hiddens += tuple(output.hidden for output in done.outputs[:kept])
    state.committed += done.emitted
    state.grammar = done.grammar
    state.promoted = done.promoted
    if done.promoted is not None:
        state.frontier = done.promoted.frontier
    state.adaptive = done.adaptive
    state.statistics = setting.pieces.count_round(state.statistics, done.report)
    state.reports += (done.report,)
    state.finish = done.finish
    setting.say(state, "install", committed=len(state.committed), statistics=state.statistics.as_dict())


def publish(setting: Setting, state: Decoding) -> None:
    """Show the round's tokens and the text they add."""
    done, before = state.round.resolved, state.published
    after = before + done.emitted
    delta = setting.pieces.publish_text(state.request, before, after, finished=done.finish is not None)
    state.published = after
    state.text += delta
    setting.say(state, "publish", tokens=list(done.emitted), text=delta)


def end_round(setting: Setting, state: Decoding) -> None:
    """Say that the output has ended, if it has."""
    finish = state.round.resolved.finish
    if finish is not None:
        setting.say(state, "end", finish=finish.value)


def forget(state: Decoding) -> None:
    """Close a settled round, and promise the caches that no rollback will go below the committed tokens."""
    state.work = None
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
        with suppress(ReferenceFailure):
            work.verification.wait()
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
    work = state.work
    proposals = () if work is None else work.block.tokens
    output = setting.pieces.cancelled_output(state.published, proposals)
    state.statistics = setting.pieces.cancelled_statistics(state.statistics, proposals)
    abandon(setting, state)
    state.published = output
    state.adaptive = setting.pieces.cancelled_switch(state.adaptive, 0 if work is None else work.planned)
    state.finish = setting.pieces.cancelled_finish(state.finish)
    setting.events.append({"event": "cancel", "target_length": len(state.target_cache)})
