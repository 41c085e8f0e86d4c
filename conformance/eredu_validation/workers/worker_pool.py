"""The asking end: deals portions to other processes, takes back what they drew, and goes on without those that die.

A thread listens, so nobody waits while the first process is busy. Nothing is asked of a process that it would have to
remember: whatever a lost one was drawing is dealt again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from threading import Condition, Thread
from types import TracebackType
from typing import Self

from eredu.contract.errors import EreduError
from eredu_validation.evidence import Columns, SubjectIdentity
from eredu_validation.evidence.wave import Wave
from eredu_validation.workers.work_plan import Portion, WorkPlan
from eredu_validation.workers.worker_handle import WorkerHandle
from eredu_validation.workers.worker_messages import Message, columns_of_message

LISTEN_S = 0.2
"""Seconds between two looks at what is to be done, at the most."""
SILENCE_S = 600.0
"""Seconds without a word after which a busy process is given up."""
PAUSE_S = 120.0
"""Seconds that a pause is waited for."""


@dataclass(frozen=True)
class Failure:
    """What stands for a portion that could not be drawn.

    Attributes:
        error: Why.
    """

    error: Exception


class WorkerPool:
    """The processes that draw beside this one; it may have none. Use it in a `with` statement.

    Attributes:
        losses: A sentence on each process that was lost.
    """

    def __init__(
        self,
        recruit: Callable[[], Sequence[WorkerHandle]] = tuple,
        *,
        identity: SubjectIdentity,
        on_loss: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Nobody is called yet.

        Args:
            recruit: Calls the other processes, once there is something to draw.
            identity: The subject, which must be theirs.
            on_loss: Is told each sentence on a loss.
        """
        self.losses: list[str] = []
        self._recruit = recruit
        self._workers: list[WorkerHandle] = []
        self._identity = identity
        self._on_loss = on_loss
        self._changed = Condition()
        self._plan: WorkPlan[Columns | Failure] | None = None
        self._seeds = (0, 0)
        self._own = 0
        self._pausing = False
        self._closed = False
        self._thread = Thread(target=self._listen, name="eredu validate", daemon=True)

    def begin(self, plan: WorkPlan[Columns | Failure], *, seed: int, part: int) -> None:
        """Call the others, and deal portions of a run. It is begun once."""
        self._plan, self._seeds = plan, (seed, part)
        self._workers = list(self._recruit())
        if self._workers:
            self._thread.start()

    @property
    def has_begun(self) -> bool:
        """Whether there is a run to draw for."""
        return self._plan is not None

    @property
    def wave(self) -> Wave:
        """The wave that is being drawn."""
        return self._begun.wave

    def pause(self) -> None:
        """Stop the others between two rounds, and return when they have stopped."""
        with self._changed:
            self._pausing = True
            for worker in self._workers:
                worker.tell(Message("pause"))
            self._changed.wait_for(lambda: all(worker.paused for worker in self._workers), PAUSE_S)

    def resume(self) -> None:
        """Let them go on."""
        with self._changed:
            self._pausing = False
            for worker in self._workers:
                worker.tell(Message("resume"))
                worker.paused, worker.heard = False, time.monotonic()
            self._deal()

    def note_loss(self, sentence: str) -> None:
        """Tell of a loss that was noticed elsewhere."""
        self.losses.append(sentence)
        self._on_loss(sentence)

    def settle(self, needed: int) -> None:
        """So many tokens reach the goal of what was begun."""
        with self._changed:
            self._begun.settle(needed)
            self._deal()

    def counted(self, portion: Portion, taken: int) -> None:
        """A portion is evidence, with which so many tokens were taken in all."""
        with self._changed:
            self._begun.count(portion, taken)
            self._deal()

    def next_drawn(
        self, draw: Callable[[Portion, Callable[[int], None]], Columns], on_ahead: Callable[[int], None]
    ) -> tuple[Portion, Columns]:
        """The next portion in the order of the run, drawing others here meanwhile.

        Args:
            draw: Draws a portion in this process, and tells of tokens as they are committed.
            on_ahead: Is told how many tokens were drawn that are no evidence yet.

        Raises what drawing that portion raised, here or elsewhere.
        """
        plan = self._begun

        def count(tokens: int) -> None:
            self._own += tokens
            on_ahead(self._ahead())

        while True:
            with self._changed:
                due = plan.due()
                portion = plan.deal() if due is None else None
                if due is None and portion is None:
                    self._changed.wait(LISTEN_S)
            if due is not None:
                return _without_failure(*due)
            if portion is not None:
                self._own = 0
                drawn = _attempt(draw, portion, count)
                with self._changed:
                    self._own = 0
                    plan.arrive(portion, drawn)
            on_ahead(self._ahead())

    def close(self) -> None:
        """Hang up, and end what was started here."""
        with self._changed:
            self._closed = True
        if self._thread.is_alive():
            self._thread.join()
        for worker in self._workers:
            worker.end()
        self._workers = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _begun(self) -> WorkPlan[Columns | Failure]:
        if self._plan is None:
            raise ValueError("nothing was begun; call begin first")
        return self._plan

    def _ahead(self) -> int:
        with self._changed:
            waiting = 0 if self._plan is None else sum(len(d) for d in self._plan.waiting if isinstance(d, Columns))
            return self._own + waiting + sum(worker.tokens for worker in self._workers)

    def _listen(self) -> None:
        while not self._closed:
            with self._changed:
                workers = list(self._workers)
            by_connection = {worker.connection: worker for worker in workers}
            heard = wait(list(by_connection), LISTEN_S) if workers else []
            for connection in heard:
                worker = by_connection[connection]  # type: ignore[index]
                try:
                    self._hear(worker, Message.of_bytes(worker.connection.recv_bytes()))
                except (EOFError, OSError):
                    self._lose(worker, worker.death())
                except Exception as error:  # whatever it sent, the others go on
                    self._lose(worker, f"what it sent cannot be read: {error!r}")
            self._give_up_the_silent()
            if not workers:
                return

    def _hear(self, worker: WorkerHandle, message: Message) -> None:
        drawn = columns_of_message(message) if message.kind == "drawn" else None
        with self._changed:
            worker.heard = time.monotonic()
            if message.kind == "ready":
                self._welcome(worker, SubjectIdentity.of_record(message.values["fingerprint"]))
            elif message.kind == "refused":
                self._lose(worker, str(message.values["text"]))
            elif message.kind == "paused":
                worker.paused = True
            elif message.kind == "tokens":
                worker.tokens = int(message.values["tokens"])
            elif message.kind == "failed":
                self._arrive(worker, Failure(EreduError(str(message.values["text"]))))
            elif drawn is not None:
                self._arrive(worker, drawn)
            self._changed.notify_all()

    def _welcome(self, worker: WorkerHandle, theirs: SubjectIdentity) -> None:
        differences = self._identity.differences(theirs)
        if differences:
            self._lose(worker, f"it validates another subject: {'; '.join(differences)}")
            return
        worker.ready = True
        self._deal()

    def _arrive(self, worker: WorkerHandle, drawn: Columns | Failure) -> None:
        if self._plan is not None and worker.portion is not None:
            self._plan.arrive(worker.portion, drawn)
        worker.portion, worker.tokens = None, 0
        self._deal()

    def _deal(self) -> None:
        if self._plan is None or self._pausing:
            return
        seed, part = self._seeds
        for worker in self._workers:
            portion = self._plan.deal() if worker.ready and worker.portion is None else None
            if portion is not None:
                worker.portion, worker.heard = portion, time.monotonic()
                asked = {"first": portion.first, "count": portion.count, "length": portion.length}
                worker.tell(Message("draw", {**asked, "seed": seed, "part": part}))

    def _give_up_the_silent(self) -> None:
        now = time.monotonic()
        with self._changed:
            for worker in [m for m in self._workers if m.portion is not None and not m.paused]:
                if now - worker.heard > SILENCE_S:
                    self._lose(worker, f"it said nothing for {SILENCE_S:g} s")

    def _lose(self, worker: WorkerHandle, why: str) -> None:
        with self._changed:
            if worker not in self._workers:
                return
            self._workers.remove(worker)
            if self._plan is not None and worker.portion is not None:
                self._plan.give_back(worker.portion)
            self._deal()
            self._changed.notify_all()
        worker.end()
        self.note_loss(f"{worker.name} is lost: {why}; what it drew counts, and the others draw the rest")


def _attempt(
    draw: Callable[[Portion, Callable[[int], None]], Columns], portion: Portion, count: Callable[[int], None]
) -> Columns | Failure:
    try:
        return draw(portion, count)
    except Exception as error:
        # Kept until the portion's turn comes: evidence before it may settle the question.
        return Failure(error)


def _without_failure(portion: Portion, drawn: Columns | Failure) -> tuple[Portion, Columns]:
    if isinstance(drawn, Failure):
        raise drawn.error
    return portion, drawn
