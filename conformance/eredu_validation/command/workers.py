"""Processes that draw for one `eredu validate`: how many, how they are started, and what one of them does."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from eredu.checkpoints.names import resolve_checkpoint
from eredu.commands.console import ExitStatus, message_console
from eredu.contract.errors import EreduError, OptionError
from eredu_validation.evidence import Terms

if TYPE_CHECKING:
    from eredu_validation.command.run import ValidationRequest
    from eredu_validation.measures.session import Session
    from eredu_validation.workers.sharded_ranks import Lockstep
    from eredu_validation.workers.worker_handle import Member
    from eredu_validation.workers.worker_pool import Crew

AUTO = "auto"
SHARDS = ("tensor", "pipeline")
"""How ranks may hold a target together."""
MOST_AUTOMATIC = 4
"""Processes that `auto` takes at the most."""
WORTH = 500
"""Tokens to draw for each further process that `auto` takes: it has to load the checkpoint first."""
MEMORY_SHARE = 0.5
"""Share of the free memory that `auto` lets the checkpoints take."""


def wanted_workers(said: str) -> int | None:
    """The number that `--workers` gave; None for `auto`. Raises `OptionError` for anything else."""
    if said == AUTO:
        return None
    if said.isdecimal() and int(said) >= 1:
        return int(said)
    raise OptionError(f"--workers was {said!r}; expected a number from 1, or {AUTO}")


def automatic_workers(request: ValidationRequest, needed: int) -> int:
    """Processes that pay: cores, memory, and tokens to draw; one on a GPU, which is shared by all."""
    import mlx.core as mx  # noqa: PLC0415 (only here)

    # Another engine takes the machine as it likes, and each process would start one.
    if mx.default_device().type != mx.DeviceType.cpu or request.subject is not None:
        return 1
    names = [request.target, *(name for name in (request.assistant, request.head) if name is not None)]
    weight = max(1, sum(_bytes_of(resolve_checkpoint(name)) for name in names))
    room = int(MEMORY_SHARE * available_memory() / weight)
    return max(1, min(usable_cores(), MOST_AUTOMATIC, room, needed // WORTH))


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int:
    """Bytes that are free or can be freed at once; all there are, where the system does not say."""
    table = Path("/proc/meminfo")
    if table.is_file():
        for line in table.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def crew_of(request: ValidationRequest, session: Session, ranks: Sequence[Member] = ()) -> Iterator[Crew]:
    """Everyone who draws beside this process: other ranks where there are any, else processes of this machine."""
    from eredu_validation.workers.ranks import surviving  # noqa: PLC0415 (likewise)
    from eredu_validation.workers.worker_pool import Crew  # noqa: PLC0415 (MLX, only for this)

    count = wanted_workers(request.workers)
    if count is None:
        needed = session.goal.needed(Terms(alpha=request.alpha, tolerance=request.tolerance or 0.0))
        count = 1 if ranks or request.shard is not None else automatic_workers(request, needed or 1)
    names = [f"worker {number}" for number in range(2, count + 1)]
    crew = Crew(
        lambda: [*ranks, *(hire(name, request) for name in names)], fingerprint=session.fingerprint, on_loss=_report
    )
    with crew, surviving(crew) if ranks or request.shard is not None else nullcontext():
        yield crew


def join_ranks(request: ValidationRequest) -> list[Member] | None:
    """The other ranks of this `mlx.launch`, none without one; on another rank than the first: draw for the first.

    None says that this was such a rank, and that all is done.
    """
    if "MLX_RANK" not in os.environ:
        return []
    from eredu_validation.workers import ranks  # noqa: PLC0415 (MLX, only for this)

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


def lockstep_of(request: ValidationRequest) -> Lockstep | None:
    """The ranks that are to hold the target together; None where each holds all of it.

    Raises `OptionError` for settings that go with no such target.
    """
    if request.shard is None:
        return None
    from eredu_validation.workers.ranks import launched_group  # noqa: PLC0415 (likewise)
    from eredu_validation.workers.sharded_ranks import Lockstep  # noqa: PLC0415 (MLX, only for this)

    if request.shard not in SHARDS:
        raise OptionError(f"--shard was {request.shard!r}; expected one of {', '.join(SHARDS)}")
    if request.subject is not None or request.workers not in {AUTO, "1"}:
        raise OptionError("--shard goes with neither --subject nor --workers: all ranks draw the same tokens together")
    group = launched_group() if "MLX_RANK" in os.environ else None
    if group is None:
        raise OptionError("--shard divides a target over ranks, and there is one process; start it with `mlx.launch`")
    return Lockstep(group)


def follow(request: ValidationRequest, lockstep: Lockstep) -> int:
    """What a rank that holds a part of the target does: all that rank 0 does, but nothing that is kept or shown."""
    from eredu_validation.command.run import prepare  # noqa: PLC0415 (it imports this module)
    from eredu_validation.measures.law import Goal  # noqa: PLC0415 (MLX, only for this)
    from eredu_validation.workers.ranks import leave_signals_to_first  # noqa: PLC0415 (likewise)

    leave_signals_to_first()
    session = prepare(request, Goal.of(request.tokens, request.resolve), lockstep)
    try:
        lockstep.follow(session)
    except RuntimeError:
        # What MLX raises once another rank is gone: rank 0 tells of it, if it is not that one.
        return ExitStatus.INTERRUPTED
    return ExitStatus.OK


@contextmanager
def refusing_loss(lockstep: Lockstep | None) -> Iterator[None]:
    """While parts are measured: say which kind of failure it is, where ranks hold the target and one is lost."""
    try:
        yield
    except RuntimeError as error:
        if lockstep is None:
            raise
        raise EreduError(
            f"a rank that holds a part of the target was lost while the parts were measured ({error}); run it again"
        ) from error


@contextmanager
def noting_loss(lockstep: Lockstep | None, crew: Crew) -> Iterator[None]:
    """On rank 0: gather with the ranks that hold the target; where one is lost, the evidence so far is judged."""
    from eredu_validation.workers.sharded_ranks import Step  # noqa: PLC0415 (MLX, only for this)

    if lockstep is None:
        yield
        return
    try:
        yield
        lockstep.tell(Step.END)
    except RuntimeError as error:
        crew.note_loss(f"a rank that holds a part of the target is lost ({error}); what was drawn until then counts")


def hire(name: str, request: ValidationRequest) -> Member:
    """Start a process of this machine that draws."""
    from eredu_validation.workers.worker_handle import Member  # noqa: PLC0415 (MLX, only for this)

    # Read-only mappings, such as logit biases, have no pickle of their own.
    ForkingPickler.register(MappingProxyType, _reduce_mapping)
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=work, args=(request, there), name=f"eredu validate, {name}", daemon=True)
    with _interrupts_ignored():
        process.start()
    there.close()
    return Member(name, here, process)


def work(request: ValidationRequest, connection: Connection) -> None:
    """What a drawing process does: load the subject, and draw for whoever is at the other end until that hangs up."""
    from eredu_validation.command.run import prepare  # noqa: PLC0415 (it imports this module)
    from eredu_validation.measures.law import Goal  # noqa: PLC0415 (MLX, only for this)
    from eredu_validation.workers.worker import Worker  # noqa: PLC0415 (likewise)
    from eredu_validation.workers.worker_messages import Message  # noqa: PLC0415 (likewise)

    try:
        session = prepare(request, Goal.of(request.tokens, request.resolve))
    except EreduError as error:
        connection.send_bytes(Message("refused", {"text": str(error)}).to_bytes())
        return
    Worker(connection, session.law.draw).serve(session.fingerprint)


def _bytes_of(checkpoint: Path) -> int:
    files = [checkpoint] if checkpoint.is_file() else checkpoint.glob("*.safetensors")
    return sum(file.stat().st_size for file in files)


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
