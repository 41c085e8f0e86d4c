"""One `eredu validate` from its request to its exit status."""

from __future__ import annotations

import shlex
from contextlib import closing
from dataclasses import replace

from eredu.commands.console import ExitStatus, message_console
from eredu.contract.errors import EngineError, EreduError
from eredu_validation.command.output import EvidenceBar
from eredu_validation.command.preparation import prepare
from eredu_validation.command.request import ValidationRequest
from eredu_validation.command.worker_count import wanted_workers
from eredu_validation.command.worker_processes import (
    follow,
    join_ranks,
    noting_loss,
    pool_of,
    refusing_loss,
    sharded_ranks_of,
)
from eredu_validation.evidence import Terms
from eredu_validation.session.goal import Goal
from eredu_validation.session.session import Session


def run_validation(request: ValidationRequest) -> int:
    """Run a validation; return the exit status.

    Raises what loading, options and ledgers raise; `KeyboardInterrupt` again, once the evidence so far is told.
    """
    goal = Goal.of(request.tokens, request.resolve)
    Terms(alpha=request.alpha, tolerance=request.tolerance or 0.0)
    wanted_workers(request.workers)
    sharded = sharded_ranks_of(request)
    if sharded is not None:
        request = replace(request, seed=sharded.same_seed(request.seed))
    ranks = join_ranks(request) if sharded is None else []
    if ranks is None or (sharded is not None and not sharded.leads):
        return ExitStatus.OK if sharded is None else follow(request, sharded)
    request.outputs.check()
    session = prepare(request, goal, sharded)
    interrupted = False
    with closing(session.subject), pool_of(request, session, ranks) as pool, EvidenceBar(request.tokens) as bar:
        try:
            with refusing_loss(sharded):
                ledger, parts = session.open(pool, bar.part)
        except KeyboardInterrupt:
            if session.place.exists():
                place = shlex.quote(str(session.place))
                message_console().print(f"the parts measured so far are kept: --resume {place}", soft_wrap=True)
            raise
        with ledger:
            if ledger.drawn_again:
                message_console().print(f"{ledger.drawn_again:,} tokens are drawn again: the last run was killed")
            try:
                bar.needed(goal.needed(ledger.content.header.terms))
                with noting_loss(sharded, pool):
                    session.gather(ledger, pool, bar.law)
            except KeyboardInterrupt:
                interrupted = True
            except EreduError as error:
                if session.subject.engine is None:
                    raise
                raise EngineError(f"{error}. {_kept(session, ledger.content.tally.tokens)}") from error
            result = session.result(ledger, parts)
    request.outputs.give(result)
    message_console().print(f"the evidence is kept: --resume {shlex.quote(str(session.place))}", soft_wrap=True)
    if interrupted:
        raise KeyboardInterrupt
    return int(result["verdict"]["exit_status"])


def _kept(session: Session, tokens: int) -> str:
    return f"The evidence of {tokens:,} tokens before is kept: --resume {shlex.quote(str(session.place))}"
