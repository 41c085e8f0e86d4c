"""Ranks: the same command on several machines under `mlx.launch`. Rank 0 asks, every other one draws.

MLX's collectives tell every rank where rank 0 listens, and a key; after that ranks speak over connections of their
own. A collective fails on every rank, or waits for ever, once one of them is gone, and a connection of its own says at
once which rank it was, while the others go on.
"""

from __future__ import annotations

import _thread
import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from eredu.contract.errors import EreduError, OptionError
from eredu.files.json_reading import read_json
from eredu_validation.workers.worker_handle import WorkerHandle
from eredu_validation.workers.worker_pool import WorkerPool

JOIN_S = 60.0
"""Seconds that a rank gets to call rank 0."""
KEY_BYTES = 32
LOST_S = 2.0
"""Seconds in which the loss of a rank shows, before a signal to end is taken for the user's own."""


def launched_group() -> mx.distributed.Group | None:
    """The ranks of this `mlx.launch`; None where there is one process. Raises `EreduError` if they do not meet."""
    try:
        group = mx.distributed.init()
    except RuntimeError as error:
        raise EreduError(f"the ranks of `mlx.launch` did not find one another: {error}; check the hostfile") from error
    return group if group.size() > 1 else None


def address_of_first(environment: Mapping[str, str]) -> str:
    """Where rank 0 is reached by the others, as `mlx.launch` told every rank.

    Raises `OptionError` where it told nothing: for a backend other than ring, jaccl and nccl.
    """
    hosts = environment.get("MLX_HOSTFILE")
    if hosts:
        addresses: list[list[str]] = read_json(Path(hosts), error=OptionError)
        return addresses[0][0].rpartition(":")[0]
    for name in ("MLX_JACCL_COORDINATOR", "NCCL_HOST_IP"):
        if environment.get(name):
            return environment[name].partition(":")[0]
    raise OptionError(
        "this rank was not told where rank 0 is; run `mlx.launch` with --backend ring, jaccl or nccl, whose ranks are"
    )


def gather_ranks(group: mx.distributed.Group) -> list[WorkerHandle]:
    """On rank 0: all other ranks, connected. One that does not call in time is closed, and so counts as lost."""
    address = address_of_first(os.environ)
    key = secrets.token_bytes(KEY_BYTES)
    workers: dict[int, WorkerHandle | None] = dict.fromkeys(range(1, group.size()))
    with socket.create_server((address, 0)) as server:
        share(group, [server.getsockname()[1], *key])
        server.settimeout(JOIN_S)
        while None in workers.values():
            try:
                connection = _answer(server, key)
            except TimeoutError:
                break
            if connection is not None:
                rank = int.from_bytes(connection.recv_bytes(8))
                workers[rank] = WorkerHandle(f"rank {rank}", connection)
    return [worker or _absent(rank) for rank, worker in workers.items()]


def call_first(group: mx.distributed.Group) -> Connection:
    """On any other rank: a connection to rank 0."""
    address = address_of_first(os.environ)
    port, *key = share(group, [0] * (1 + KEY_BYTES))
    caller = socket.create_connection((address, port), timeout=JOIN_S)
    caller.settimeout(None)
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection = Connection(caller.detach())
    answer_challenge(connection, bytes(key))
    deliver_challenge(connection, bytes(key))
    connection.send_bytes(group.rank().to_bytes(8))
    return connection


def share(group: mx.distributed.Group, numbers: list[int]) -> list[int]:
    """Rank 0's numbers, each below 2^32, on every rank; all ranks call it, with as many numbers."""
    own = numbers if group.rank() == 0 else [0] * len(numbers)
    total = mx.distributed.all_sum(mx.array(np.array(own, dtype=np.uint32)), group=group, stream=mx.cpu)
    return [int(number) for number in np.array(total)]


def leave_signals_to_first() -> None:
    """On a rank that draws: let rank 0 say when it is over. It hangs up, or is gone, and then this one ends too.

    `mlx.launch` asks all ranks to end as soon as one of them failed.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def surviving(pool: WorkerPool) -> Iterator[None]:
    """On rank 0: go on where `mlx.launch` asks all ranks to end because another one is lost.

    Asked to end for any other reason, it stops as at Ctrl-C: the evidence is kept.
    """

    def unless_lost() -> None:
        if not pool.losses:
            _thread.interrupt_main()

    def asked(*_: object) -> None:
        timer = threading.Timer(LOST_S, unless_lost)
        timer.daemon = True
        timer.start()

    # Set too, because a shell that starts a job in the background lets it ignore interrupts.
    handlers: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: asked, signal.SIGHUP: asked}
    before = [(number, signal.signal(number, handler)) for number, handler in handlers.items()]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _answer(server: socket.socket, key: bytes) -> Connection | None:
    """A connection of somebody who knows the key."""
    accepted, _ = server.accept()
    accepted.settimeout(None)
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection = Connection(accepted.detach())
    try:
        deliver_challenge(connection, key)
        answer_challenge(connection, key)
    except Exception:  # a stranger; ranks know the key
        connection.close()
        return None
    return connection


def _absent(rank: int) -> WorkerHandle:
    """A rank that never called: its connection is closed at the other end."""
    here, there = socket.socketpair()
    there.close()
    return WorkerHandle(f"rank {rank}", Connection(here.detach()))
