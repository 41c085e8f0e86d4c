"""The drawing end: a process that draws portions for another one until that one hangs up.

It keeps nothing. Everything it drew belongs to the process that asked, which alone holds evidence and ledger.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from eredu_validation.evidence import Columns, SubjectIdentity
from eredu_validation.workers.work_plan import Portion
from eredu_validation.workers.worker_messages import Message, columns_message

TOLD_S = 0.25
"""Seconds between two reports of progress, at the least."""

Draw = Callable[[int, int, Portion, Callable[[int], None]], Columns]
"""Draws a portion: seed, part, portion, and what is told of tokens as they are committed."""


class HungUpError(Exception):
    """The process that asked is gone, or wants no more."""


class Worker:
    """Draws what it is asked for.

    Args:
        connection: To the process that asks.
        draw: Draws a portion.
    """

    def __init__(self, connection: Connection, draw: Draw) -> None:
        self._connection = connection
        self._draw = draw
        self._drawn = 0
        self._told = 0.0

    def serve(self, identity: SubjectIdentity) -> None:
        """Say what is drawn from, then draw until the other end hangs up."""
        try:
            self._tell(Message("ready", {"fingerprint": identity.record()}))
            while True:
                self._obey(self._hear())
        except HungUpError:
            return

    def _obey(self, message: Message) -> None:
        if message.kind == "pause":
            self._tell(Message("paused"))
            while self._hear().kind != "resume":
                pass
        elif message.kind == "draw":
            self._draw_portion(message)

    def _draw_portion(self, message: Message) -> None:
        asked = {name: int(message.values[name]) for name in ("first", "count", "length")}
        self._drawn = 0
        try:
            columns = self._draw(message.values["seed"], message.values["part"], Portion(**asked), self._on_tokens)
        except HungUpError:
            raise
        except Exception as error:
            # Told, not raised: it counts when its portion's turn comes, as it would in one process.
            self._tell(Message("failed", {**asked, "text": f"{type(error).__name__}: {error}"}))
        else:
            self._tell(columns_message(columns, asked))

    def _on_tokens(self, count: int) -> None:
        """Between two rounds: report, and pause or end where that is asked."""
        self._drawn += count
        now = time.monotonic()
        if now - self._told >= TOLD_S:
            self._told = now
            self._tell(Message("tokens", {"tokens": self._drawn}))
        if self._connection.poll():
            self._obey(self._hear())

    def _tell(self, message: Message) -> None:
        try:
            self._connection.send_bytes(message.to_bytes())
        except OSError as error:
            raise HungUpError from error

    def _hear(self) -> Message:
        try:
            return Message.of_bytes(self._connection.recv_bytes())
        except (EOFError, OSError) as error:
            raise HungUpError from error
