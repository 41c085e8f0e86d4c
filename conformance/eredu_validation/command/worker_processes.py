"""Processes that draw for one `eredu validate`: how they are started, and what one of them does."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from types import MappingProxyType
from typing import Any

from eredu.commands.console import ExitStatus, message_console
from eredu.contract.errors import EreduError, OptionError
from eredu_validation.command.preparation import prepare
from eredu_validation.command.request import AUTO, ValidationRequest
from eredu_validation.command.worker_count import automatic_workers, wanted_workers
from eredu_validation.evidence import Terms
from eredu_validation.session.goal import Goal
from eredu_validation.session.session import Session
from eredu_validation.workers import ranks
from eredu_validation.workers.sharded_ranks import RankTask, ShardedRanks
from eredu_validation.workers.worker import Worker
from eredu_validation.workers.worker_handle import WorkerHandle
from eredu_validation.workers.worker_messages import Message
from eredu_validation.workers.worker_pool import WorkerPool

SHARDS = ("tensor", "pipeline")
"""How ranks may hold a target together."""


@contextmanager
def pool_of(request: ValidationRequest, session: Session, others: Sequence[WorkerHandle] = ()) -> Iterator[WorkerPool]:
    """Everyone who draws beside this process: other ranks where there are any, else processes of this machine."""
    count = wanted_workers(request.workers)
    if count is None:
        needed = session.goal.needed(Terms(alpha=request.alpha, tolerance=request.tolerance or 0.0))
        count = 1 if others or request.shard is not None else automatic_workers(request, needed or 1)
    names = [f"worker {number}" for number in range(2, count + 1)]
    pool = WorkerPool(
        lambda: [*others, *(hire(name, request) for name in names)], identity=session.identity, on_loss=_report
    )
    with pool, ranks.surviving(pool) if others or request.shard is not None else nullcontext():
        yield pool


def join_ranks(request: ValidationRequest) -> list[WorkerHandle] | None:
    """The other ranks of this `mlx.launch`, none without one; on another rank than the first: draw for the first.

    None says that this was such a rank, and that all is done.
    """
    if "MLX_RANK" not in os.environ:
        return []
    group = ranks.launched_group()
    if group is None:
        return []
    if request.workers not in {AUTO, "1"}:
        raise OptionError("--workers divides one machine, and under `mlx.launch` every rank draws; give one of the two")
    if group.rank() == 0:
        return ranks.gather_ranks(group)
    connection = ranks.call_first(group)
    ranks.leave_signals_to_first()
    work(request, connection)
    return None


def sharded_ranks_of(request: ValidationRequest) -> ShardedRanks | None:
    """The ranks that are to hold the target together; None where each holds all of it.

    Raises `OptionError` for settings that go with no such target.
    """
    if request.shard is None:
        return None
    if request.shard not in SHARDS:
        raise OptionError(f"--shard was {request.shard!r}; expected one of {', '.join(SHARDS)}")
    if request.subject is not None or request.workers not in {AUTO, "1"}:
        raise OptionError("--shard goes with neither --subject nor --workers: all ranks draw the same tokens together")
    group = ranks.launched_group() if "MLX_RANK" in os.environ else None
    if group is None:
        raise OptionError("--shard divides a target over ranks, and there is one process; start it with `mlx.launch`")
    return ShardedRanks(group)


def follow(request: ValidationRequest, sharded: ShardedRanks) -> int:
    """What a rank that holds a part of the target does: all that rank 0 does, but nothing that is kept or shown."""
    ranks.leave_signals_to_first()
    session = prepare(request, Goal.of(request.tokens, request.resolve), sharded)
    try:
        sharded.follow(measure=session.measure, feed=session.logits_dtype, draw=session.law.draw)
    except RuntimeError:
        # What MLX raises once another rank is gone: rank 0 tells of it, if it is not that one.
        return ExitStatus.INTERRUPTED
    return ExitStatus.OK


@contextmanager
def refusing_loss(sharded: ShardedRanks | None) -> Iterator[None]:
    """While parts are measured: say which kind of failure it is, where ranks hold the target and one is lost."""
    try:
        yield
    except RuntimeError as error:
        if sharded is None:
            raise
        raise EreduError(
            f"a rank that holds a part of the target was lost while the parts were measured ({error}); run it again"
        ) from error


@contextmanager
def noting_loss(sharded: ShardedRanks | None, pool: WorkerPool) -> Iterator[None]:
    """On rank 0: gather with the ranks that hold the target; where one is lost, the evidence so far is judged."""
    if sharded is None:
        yield
        return
    try:
        yield
        sharded.tell(RankTask.END)
    except RuntimeError as error:
        pool.note_loss(f"a rank that holds a part of the target is lost ({error}); what was drawn until then counts")


def hire(name: str, request: ValidationRequest) -> WorkerHandle:
    """Start a process of this machine that draws."""
    # Read-only mappings, such as logit biases, have no pickle of their own.
    ForkingPickler.register(MappingProxyType, _reduce_mapping)
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=work, args=(request, there), name=f"eredu validate, {name}", daemon=True)
    with _interrupts_ignored():
        process.start()
    there.close()
    return WorkerHandle(name, here, process)


def work(request: ValidationRequest, connection: Connection) -> None:
    """What a drawing process does: load the subject, and draw for whoever is at the other end until that hangs up."""
    try:
        session = prepare(request, Goal.of(request.tokens, request.resolve))
    except EreduError as error:
        connection.send_bytes(Message("refused", {"text": str(error)}).to_bytes())
        return
    Worker(connection, session.law.draw).serve(session.identity)


def _reduce_mapping(mapping: MappingProxyType[Any, Any]) -> tuple[Any, tuple[dict[Any, Any]]]:
    return _read_only, (dict(mapping),)


def _read_only(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


def _report(sentence: str) -> None:
    message_console().print(sentence, soft_wrap=True, highlight=False)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal; those that are started here leave it to this one to end them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
