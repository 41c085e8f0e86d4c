"""Resolution of a verification: everything that a round decides, computed on copies before anything moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eredu.contract.executor import CommitPlan, ExecutorTraits, VerificationOutcome
from eredu.contract.statistics import BranchOutcome, BranchResolution, ClipReason, RequestStatistics, RoundReport
from eredu.contract.terminal import TerminalWatch, Walk
from eredu.scheduling.clipping import Depth, clip_depth
from eredu.scheduling.lookahead import AdaptiveLookahead, resolve_branch


@dataclass(frozen=True, slots=True)
class BranchView:
    """A branch as resolution sees it.

    Attributes:
        planned: Tokens it was planned for.
        drafted: Tokens it has.
        guess: Reads its first token; called only after full acceptance, for it may wait for the device.
    """

    planned: int
    drafted: int
    guess: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Resolution:
    """The outcome of one round, ready to be committed and installed.

    Attributes:
        walk: Emitted tokens, the watch behind them, and the finish.
        plan: What the executor has to commit.
        branch: What becomes of the branch.
        next_depth: The clip of the next round; None at the end of the output.
        adaptive: The lookahead switch behind the round.
        statistics: The counters behind the round.
    """

    walk: Walk
    plan: CommitPlan
    branch: BranchResolution
    next_depth: Depth | None
    adaptive: AdaptiveLookahead
    statistics: RequestStatistics


# rule: commit.on-copies, statistics.committed-rounds-only
def resolve_round(
    *,
    outcome: VerificationOutcome,
    depth: Depth,
    branch: BranchView | None,
    watch: TerminalWatch,
    adaptive: AdaptiveLookahead,
    statistics: RequestStatistics,
    requested: int,
    committed: int,
    traits: ExecutorTraits,
    drafting_s: float = 0.0,
    waiting_s: float = 0.0,
) -> Resolution:
    """Resolve one verification.

    Args:
        outcome: What the executor waited for.
        depth: The clip under which the block was drafted; a shorter block met the end of the grammar.
        branch: The lookahead branch, if the round has one.
        watch: What can end the output, before this round's tokens.
        adaptive: The lookahead switch before the round.
        statistics: The counters before the round.
        requested: K of the request.
        committed: Tokens of prompt and output before the round.
        traits: Limits of the executor.
        drafting_s: Seconds spent drafting, for the statistics alone.
        waiting_s: Seconds waited for the verification, for the statistics alone.
    """
    # rule: verify.first-rejection-ends, bonus.after-full-acceptance, terminal.nothing-behind
    walk = watch.walk((*outcome.proposals[: outcome.accepted], outcome.token))
    emitted = len(walk.emitted)
    next_depth = None
    if walk.finish is None:
        next_depth = clip_depth(requested, traits, committed + emitted, walk.watch.remaining)

    resolved, before = BranchResolution(), adaptive
    if branch is not None:
        resolved = BranchResolution(BranchOutcome.DROPPED, branch.drafted)
        if next_depth is not None and outcome.accepted == len(outcome.proposals):
            resolved = resolve_branch(branch.drafted, next_depth.count, branch.guess(), outcome.token)
        adaptive = before.observe(branch.planned, resolved)

    target_tokens = int(emitted == outcome.accepted + 1)
    report = RoundReport(
        drafted=len(outcome.proposals),
        accepted=min(outcome.accepted, emitted),
        rejected=int(target_tokens == 1 and outcome.accepted < len(outcome.proposals)),
        target_tokens=target_tokens,
        clip=depth.reason if len(outcome.proposals) == depth.count else ClipReason.GRAMMAR,
        branch=resolved,
        disabled=before.enabled and not adaptive.enabled,
        drafting_s=drafting_s,
        waiting_s=waiting_s,
    )
    promoted = resolved.reused if resolved.outcome is BranchOutcome.PROMOTED else None
    return Resolution(
        walk=walk,
        # rule: commit.one-number, commit.terminal-token-committed
        plan=CommitPlan(kept=emitted, tokens=walk.emitted, promoted=promoted),
        branch=resolved,
        next_depth=next_depth,
        adaptive=adaptive,
        statistics=statistics.with_round(report),
    )
