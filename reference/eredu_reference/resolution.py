"""Resolving a round on copies: what it emits, what becomes of its branch, and the one state that follows."""

from __future__ import annotations

from dataclasses import replace

from eredu_reference.clipping import ClipReason
from eredu_reference.constraint import state_after
from eredu_reference.deciding import Decision, Judge, target_rows
from eredu_reference.decoding import Decoding, Resolution, RoundWork, Setting
from eredu_reference.frontier import Block
from eredu_reference.statistics import BranchOutcome, RoundReport
from eredu_reference.terminal import Walk


def resolve(setting: Setting, state: Decoding) -> None:
    """Decide over the proposals, then over the branch."""
    pieces, work, request = setting.pieces, state.round, state.request
    block = work.block
    rows = target_rows(setting, state, block, work.outputs)
    source, start = work.judged_with.source, len(state.output)
    decision = Judge(pieces, state.rule, source, start, block.tokens, block.rows, rows).decide()
    offered = pieces.candidates(block.tokens, decision.accepted, decision.token)
    walked = pieces.walk(request, state.output, state.grammar, offered, state.budget)
    setting.say(
        state,
        "resolve",
        accepted=decision.accepted,
        token=decision.token,
        emitted=list(walked.emitted),
        finish=None if walked.finish is None else walked.finish.value,
    )
    grammar = pieces.install_grammar(request.constraint, state.grammar, block.tokens, walked.emitted)
    promoted = _promoted(setting, state, work, decision, walked)
    report = _report(state, work, decision, walked, promoted)
    adaptive = state.adaptive
    if work.branch is not None:
        is_promoted = promoted is not None
        adaptive = pieces.observe_branch(adaptive, work.planned, promoted=is_promoted, reused=report.reused)
        report = replace(report, disabled=state.adaptive.enabled and not adaptive.enabled)
        setting.say(state, "resolve-branch", outcome=report.branch.value, reused=report.reused)
    work.resolution = Resolution(walked.emitted, walked.finish, work.outputs, grammar, promoted, adaptive, report)


def _promoted(setting: Setting, state: Decoding, work: RoundWork, decision: Decision, walked: Walk) -> Block | None:
    """Start of the next block, if the branch lives."""
    pieces, branch, count = setting.pieces, work.branch, len(work.block.tokens)
    if branch is None or not branch.tokens:
        return None
    terminal = walked.finish is not None
    guess, token = branch.tokens[0], decision.token
    if not pieces.promotes(guess, token, accepted=decision.accepted, count=count, terminal=terminal):
        return None
    committed = len(state.committed) + len(walked.emitted)
    room = pieces.clip(setting.limits(state.request, committed)).count
    start = pieces.promoted_block(branch, pieces.reused_tokens(len(branch.tokens), room))
    behind = state_after(state.request.constraint, state.grammar, walked.emitted + start.tokens)
    return replace(start, grammar=behind)


def _report(state: Decoding, work: RoundWork, decision: Decision, walked: Walk, promoted: Block | None) -> RoundReport:
    count, emitted, branch = len(work.block.tokens), walked.emitted, work.branch
    shortened = count < work.clip.count
    complete = decision.accepted == count and walked.finish is None
    outcome = BranchOutcome.DROPPED if promoted is None else BranchOutcome.PROMOTED
    return RoundReport(
        start=len(state.output),
        reason=ClipReason.GRAMMAR if shortened else work.clip.reason,
        proposals=work.block.tokens,
        accepted=decision.accepted,
        token=decision.token,
        emitted=emitted,
        replaced=decision.accepted < count and len(emitted) == decision.accepted + 1,
        branch=BranchOutcome.NONE if branch is None else outcome,
        planned=work.planned,
        branch_tokens=() if branch is None else branch.tokens,
        reused=0 if promoted is None else len(promoted.tokens),
        compared=branch is not None and complete,
    )
