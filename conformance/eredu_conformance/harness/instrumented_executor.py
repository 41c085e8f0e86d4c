"""Any executor, instrumented: a log of its calls, faults at chosen calls, and delays on a clock of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from eredu.contract.constraint import Constraint
from eredu.contract.executor import (
    BlockT,
    CommitPlan,
    ExecutorTraits,
    SequenceT,
    SpeculativeExecutor,
    Submission,
    VerificationOutcome,
    VerificationT,
)
from eredu.contract.request import GenerationRequest

METHODS = ("open", "prefill", "draft", "submit", "branch", "wait", "bonus_guess", "commit", "close")
"""The methods of `SpeculativeExecutor` that act."""

T = TypeVar("T")


class Call(NamedTuple):
    """One call: its method, the request's number, and its arguments behind the sequence."""

    method: str
    request: int
    arguments: tuple[Any, ...]


class InjectedFaultError(RuntimeError):
    """Raised on purpose by an `InstrumentedExecutor`."""


@dataclass(frozen=True)
class Fault:
    """Where to raise.

    Attributes:
        method: A name of `METHODS`.
        number: Which call of it, from 1, counted over the request if one is named, else over all.
        request: Number of the request that it concerns; None for any.
        after: Whether the call does its work before it raises.
        whole: Whether a submission raises for the whole group, rather than answer its member with the error; of other
            methods nothing.
    """

    method: str
    number: int = 1
    request: int | None = None
    after: bool = False
    whole: bool = False


class FakeClock:
    """Seconds that pass only where somebody says so. Calling it reads it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """The time, in seconds."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


@dataclass(eq=False)
class InstrumentedExecutor(Generic[SequenceT, BlockT, VerificationT]):
    """Implements `SpeculativeExecutor` by another executor.

    Attributes:
        inner: Does the work.
        faults: Where to raise.
        clock: Moved by every call.
        delays_s: Seconds of a call by method; `verification` is what passes between submission and completion.
        hook: Called with every call before it is carried out.
        calls: The log.
        groups: The requests of each submission, in order.
        struck: Requests whose calls raised because of a fault.
    """

    inner: SpeculativeExecutor[SequenceT, BlockT, VerificationT]
    faults: tuple[Fault, ...] = ()
    clock: FakeClock = field(default_factory=FakeClock)
    delays_s: Mapping[str, float] = field(default_factory=dict)
    hook: Callable[[Call], None] | None = None
    calls: list[Call] = field(default_factory=list)
    groups: list[tuple[int, ...]] = field(default_factory=list)
    struck: set[int] = field(default_factory=set)
    _numbers: dict[int, int] = field(default_factory=dict)
    _counts: Counter[tuple[str, int | None]] = field(default_factory=Counter)
    _ready_s: dict[int, float] = field(default_factory=dict)
    _whole: InjectedFaultError | None = None

    @property
    def traits(self) -> ExecutorTraits:
        """The inner executor's."""
        return self.inner.traits

    def open(self, request: GenerationRequest) -> SequenceT:
        """Log, delay, fail or forward."""
        sequence = self._call("open", request.index, (request,), lambda: self.inner.open(request))
        self._numbers[id(sequence)] = request.index
        return sequence

    def prefill(self, sequence: SequenceT, limit: int) -> int:
        """Log, delay, fail or forward."""
        result: int = self._forward("prefill", sequence, limit)
        return result

    def draft(self, sequence: SequenceT, count: int, promoted: BlockT | None, constraint: Constraint | None) -> BlockT:
        """Log, delay, fail or forward."""
        result: BlockT = self._forward("draft", sequence, count, promoted, constraint)
        return result

    def submit(self, group: Sequence[Submission[SequenceT, BlockT]]) -> list[VerificationT | Exception]:
        """Log a call for each member, delay once, and forward those that nothing stops before their work.

        A fault, or what the hook raises, is its member's entry; a fault of the whole group is raised. The
        verifications are ready `delays_s["verification"]` later.
        """
        self.clock.advance(self.delays_s.get("submit", 0.0))
        self.groups.append(tuple(self._numbers[id(member.sequence)] for member in group))
        self._whole = None
        announced = [self._announce(member) for member in group]
        reached = [member for member, (works, _) in zip(group, announced, strict=True) if works]
        forwarded = iter(self.inner.submit(reached) if reached else [])
        if self._whole is not None:
            raise self._whole
        entries: list[VerificationT | Exception] = []
        for works, error in announced:
            done = [next(forwarded)] if works else []
            entries += done if error is None else [error]
        return entries

    def _announce(self, member: Submission[SequenceT, BlockT]) -> tuple[bool, Exception | None]:
        """Log a member's call; return whether its work is done, and what ends it."""
        number = self._numbers[id(member.sequence)]
        self._ready_s[number] = self.clock.now_s + self.delays_s.get("verification", 0.0)
        try:
            fault = self._log(Call("submit", number, (member.block, member.more)))
        except Exception as error:
            return False, error
        if fault is None:
            return True, None
        planned = _planned(fault, number)
        if fault.whole and not fault.after:
            raise planned
        self._whole = planned if fault.whole else self._whole
        return fault.after, planned

    def branch(self, sequence: SequenceT, block: BlockT, count: int) -> BlockT:
        """Log, delay, fail or forward."""
        result: BlockT = self._forward("branch", sequence, block, count)
        return result

    def wait(self, sequence: SequenceT, verification: VerificationT) -> VerificationOutcome:
        """Log, delay until the verification is ready, fail or forward."""
        self.clock.now_s = max(self.clock.now_s, self._ready_s.get(self._numbers[id(sequence)], 0.0))
        result: VerificationOutcome = self._forward("wait", sequence, verification)
        return result

    def bonus_guess(self, sequence: SequenceT, branch: BlockT) -> int:
        """Log, delay, fail or forward."""
        result: int = self._forward("bonus_guess", sequence, branch)
        return result

    def commit(self, sequence: SequenceT, plan: CommitPlan, branch: BlockT | None) -> BlockT | None:
        """Log, delay, fail or forward."""
        result: BlockT | None = self._forward("commit", sequence, plan, branch)
        return result

    def close(self, sequence: SequenceT) -> None:
        """Log, delay, fail or forward."""
        self._forward("close", sequence)

    def called(self, method: str, request: int | None = None) -> list[Call]:
        """Calls of one method, of one request or of all."""
        return [call for call in self.calls if call.method == method and request in {None, call.request}]

    def _forward(self, method: str, sequence: SequenceT, *arguments: Any) -> Any:
        inner = getattr(self.inner, method)
        number = self._numbers[id(sequence)]
        return self._call(method, number, arguments, lambda: inner(sequence, *arguments))

    def _call(self, method: str, request: int, arguments: tuple[Any, ...], work: Callable[[], T]) -> T:
        self.clock.advance(self.delays_s.get(method, 0.0))
        fault = self._log(Call(method, request, arguments))
        if fault is not None and not fault.after:
            raise _planned(fault, request)
        result = work()
        if fault is not None:
            raise _planned(fault, request)
        return result

    def _log(self, call: Call) -> Fault | None:
        """Log a call and call the hook; return the fault that strikes it."""
        self.calls.append(call)
        self._counts.update([(call.method, None), (call.method, call.request)])
        if self.hook is not None:
            self.hook(call)
        fault = next((fault for fault in self.faults if self._strikes(fault, call)), None)
        if fault is not None:
            whole = fault.whole and call.method == "submit"
            self.struck.update(self.groups[-1] if whole else [call.request])
        return fault

    def _strikes(self, fault: Fault, call: Call) -> bool:
        if fault.method != call.method or fault.request not in {None, call.request}:
            return False
        return self._counts[fault.method, fault.request] == fault.number


def _planned(fault: Fault, request: int) -> InjectedFaultError:
    when = "behind" if fault.after else "before"
    return InjectedFaultError(f"planned {when} {fault.method} number {fault.number} of request {request}")
