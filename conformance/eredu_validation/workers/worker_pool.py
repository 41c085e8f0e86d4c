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
from eredu_validation.evidence import Columns, Fingerprint
from eredu_validation.workers.work_plan import Plan, Portion
from eredu_validation.workers.worker_handle import Member
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


class Crew:
    """The processes that draw beside this one; it may have none. Use it in a `with` statement.

    Attributes:
        losses: A sentence on each process that was lost.
    """

    def __init__(
        self,
        recruit: Callable[[], Sequence[Member]] = tuple,
        *,
        fingerprint: Fingerprint,
        on_loss: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Nobody is called yet.

        Args:
            recruit: Calls the other processes, once there is something to draw.
            fingerprint: The subject, which must be theirs.
            on_loss: Is told each sentence on a loss.
        """
        self.losses: list[str] = []
        self._recruit = recruit
        self._members: list[Member] = []
        self._fingerprint = fingerprint
        self._on_loss = on_loss
        self._changed = Condition()
        self._plan: Plan[Columns | Failure] | None = None
        self._seeds = (0, 0)
        self._own = 0
        self._pausing = False
        self._closed = False
        self._thread = Thread(target=self._listen, name="eredu validate", daemon=True)

    def begin(self, plan: Plan[Columns | Failure], *, seed: int, part: int) -> None:
        """Call the others, and deal portions of a run. It is begun once."""
        self._plan, self._seeds = plan, (seed, part)
        self._members = list(self._recruit())
        if self._members:
            self._thread.start()

    @property
    def has_begun(self) -> bool:
        """Whether there is a run to draw for."""
        return self._plan is not None

    def pause(self) -> None:
        """Stop the others between two rounds, and return when they have stopped."""
        with self._changed:
            self._pausing = True
            for member in self._members:
                member.tell(Message("pause"))
            self._changed.wait_for(lambda: all(member.paused for member in self._members), PAUSE_S)

    def resume(self) -> None:
        """Let them go on."""
        with self._changed:
            self._pausing = False
            for member in self._members:
                member.tell(Message("resume"))
                member.paused, member.heard = False, time.monotonic()
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
        for member in self._members:
            member.end()
        self._members = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _begun(self) -> Plan[Columns | Failure]:
        if self._plan is None:
            raise ValueError("nothing was begun; call begin first")
        return self._plan

    def _ahead(self) -> int:
        with self._changed:
            waiting = 0 if self._plan is None else sum(len(d) for d in self._plan.waiting if isinstance(d, Columns))
            return self._own + waiting + sum(member.tokens for member in self._members)

    def _listen(self) -> None:
        while not self._closed:
            with self._changed:
                members = list(self._members)
            by_connection = {member.connection: member for member in members}
            heard = wait(list(by_connection), LISTEN_S) if members else []
            for connection in heard:
                member = by_connection[connection]  # type: ignore[index]
                try:
                    self._hear(member, Message.of_bytes(member.connection.recv_bytes()))
                except (EOFError, OSError):
                    self._lose(member, member.death())
                except Exception as error:  # whatever it sent, the others go on
                    self._lose(member, f"what it sent cannot be read: {error!r}")
            self._give_up_the_silent()
            if not members:
                return

    def _hear(self, member: Member, message: Message) -> None:
        drawn = columns_of_message(message) if message.kind == "drawn" else None
        with self._changed:
            member.heard = time.monotonic()
            if message.kind == "ready":
                self._welcome(member, Fingerprint.of_record(message.values["fingerprint"]))
            elif message.kind == "refused":
                self._lose(member, str(message.values["text"]))
            elif message.kind == "paused":
                member.paused = True
            elif message.kind == "tokens":
                member.tokens = int(message.values["tokens"])
            elif message.kind == "failed":
                self._arrive(member, Failure(EreduError(str(message.values["text"]))))
            elif drawn is not None:
                self._arrive(member, drawn)
            self._changed.notify_all()

    def _welcome(self, member: Member, theirs: Fingerprint) -> None:
        differences = self._fingerprint.differences(theirs)
        if differences:
            self._lose(member, f"it validates another subject: {'; '.join(differences)}")
            return
        member.ready = True
        self._deal()

    def _arrive(self, member: Member, drawn: Columns | Failure) -> None:
        if self._plan is not None and member.portion is not None:
            self._plan.arrive(member.portion, drawn)
        member.portion, member.tokens = None, 0
        self._deal()

    def _deal(self) -> None:
        if self._plan is None or self._pausing:
            return
        seed, part = self._seeds
        for member in self._members:
            portion = self._plan.deal() if member.ready and member.portion is None else None
            if portion is not None:
                member.portion, member.heard = portion, time.monotonic()
                asked = {"first": portion.first, "count": portion.count, "length": portion.length}
                member.tell(Message("draw", {**asked, "seed": seed, "part": part}))

    def _give_up_the_silent(self) -> None:
        now = time.monotonic()
        with self._changed:
            for member in [m for m in self._members if m.portion is not None and not m.paused]:
                if now - member.heard > SILENCE_S:
                    self._lose(member, f"it said nothing for {SILENCE_S:g} s")

    def _lose(self, member: Member, why: str) -> None:
        with self._changed:
            if member not in self._members:
                return
            self._members.remove(member)
            if self._plan is not None and member.portion is not None:
                self._plan.give_back(member.portion)
            self._deal()
            self._changed.notify_all()
        member.end()
        self.note_loss(f"{member.name} is lost: {why}; what it drew counts, and the others draw the rest")


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
