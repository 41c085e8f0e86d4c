"""One process that draws for a validation, as the asking end knows it."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from eredu_validation.workers.work_plan import Portion
from eredu_validation.workers.worker_messages import Message

END_S = 5.0
"""Seconds that a process gets to end."""


@dataclass(eq=False)
class WorkerHandle:
    """One process that draws.

    Attributes:
        name: For messages.
        connection: What the process is spoken to over.
        process: The process itself, where it was started here.
        portion: What it draws; None where it is idle.
        ready: Whether it has loaded the subject.
        paused: Whether it has stopped between two rounds.
        tokens: Tokens of its portion so far.
        heard: When it last said anything, by the monotonic clock.
    """

    name: str
    connection: Connection
    process: BaseProcess | None = None
    portion: Portion | None = None
    ready: bool = False
    paused: bool = False
    tokens: int = 0
    heard: float = 0.0

    def tell(self, message: Message) -> None:
        """Send; that the other end is gone shows when it is listened to."""
        try:
            self.connection.send_bytes(message.to_bytes())
        except OSError:
            return

    def death(self) -> str:
        """How the process ended, in words."""
        if self.process is None:
            return "its connection was lost"
        self.process.join(END_S)
        code = self.process.exitcode
        if code is None:
            return "it hung up"
        return f"it was killed by signal {-code}" if code < 0 else f"it ended with status {code}"

    def end(self) -> None:
        """Hang up, and end the process where it was started here."""
        self.connection.close()
        if self.process is not None:
            self.process.terminate()
            self.process.join(END_S)
            if self.process.is_alive():
                self.process.kill()
                self.process.join(END_S)
