"""The Hypothesis machine: any order of joining, turning, cancelling and failing, in lock-step with the spec.

The comparison is `LockStep`'s; this file only says what may happen, and asks for everything that may.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from eredu_conformance.harness.lock_step import RAISING, VOCABULARY, LockStep
from eredu_conformance.protocol import Acceptance

IDS = st.integers(0, VOCABULARY - 1)
MOST_REQUESTS = 5
PAIRS = ("same", "near", "far", "wrong", "sparse")


class LockStepMachine(RuleBasedStateMachine):
    """Everything that may happen to a schedule."""

    pairs: tuple[str, ...] = PAIRS
    lookahead: tuple[bool, ...] = (True, True, False)
    may_cancel = True
    may_fail = True

    def __init__(self) -> None:
        super().__init__()
        self.step: LockStep | None = None
        self.requests = 0
        self.pair = ""

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Choose models and schedule, and take in a first request."""
        self.pair = data.draw(st.sampled_from(self.pairs), label="pair")
        window = data.draw(st.none() | st.integers(1, 3), label="adaptive window")
        self.step = LockStep(
            self.pair,
            lookahead=data.draw(st.sampled_from(self.lookahead), label="lookahead"),
            adaptive_lookahead=window is not None,
            adaptive_window=window or 8,
            max_in_flight=data.draw(st.integers(1, 4), label="max_in_flight"),
            max_branches=data.draw(st.integers(1, 2), label="max_branches"),
            prefill_chunk=data.draw(st.integers(1, 3), label="prefill_chunk"),
            max_group=data.draw(st.none() | st.integers(1, 3), label="max_group"),
            joins=data.draw(st.booleans(), label="joins"),
        )
        self._join(data)

    @precondition(lambda self: self.requests < MOST_REQUESTS)
    @rule(data=st.data())
    def join(self, data: st.DataObject) -> None:
        """Take in one more request."""
        self._join(data)

    def _join(self, data: st.DataObject) -> None:
        assert self.step is not None
        may_constrain = self.pair != "sparse"  # zeros and a mask may leave no legal token, which is an error
        self.step.join(
            data.draw(st.lists(IDS, min_size=1, max_size=5), label="prompt"),
            rule=data.draw(st.sampled_from([None, *Acceptance.specified()]), label="rule"),
            grammar=may_constrain and data.draw(st.sampled_from([False, False, True]), label="grammar"),
            seed=data.draw(st.integers(0, 99), label="seed"),
            max_tokens=data.draw(st.integers(1, 12), label="max_tokens"),
            max_proposals=data.draw(st.integers(0, 3), label="max_proposals"),
            lookahead_depth=data.draw(st.none() | st.integers(2, 4), label="lookahead_depth"),
            eos_ids=frozenset(data.draw(st.sets(IDS, max_size=1), label="eos_ids")),
            stop_sequences=tuple(data.draw(st.lists(st.tuples(IDS, IDS), max_size=1), label="stop_sequences")),
        )
        self.requests += 1

    @rule(turns=st.integers(1, 8))
    def turn(self, turns: int) -> None:
        """Take turns, each compared."""
        assert self.step is not None
        for _ in range(turns):
            self.step.turn()

    @precondition(lambda self: self.may_cancel)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """Cancel a request in whatever phase it is, ended ones too."""
        assert self.step is not None
        self.step.cancel(data.draw(st.integers(0, self.requests - 1), label="request"))

    @precondition(lambda self: self.may_cancel)
    @rule(data=st.data())
    def cancel_from_a_callback(self, data: st.DataObject) -> None:
        """Cancel a request from inside the next callback."""
        assert self.step is not None
        self.step.cancel_at_next_event(data.draw(st.integers(0, self.requests - 1), label="request"))

    @precondition(lambda self: self.may_fail)
    @rule(
        method=st.sampled_from((*RAISING, "submit", "submit")),
        after=st.booleans(),
        place=st.integers(0, 2),
        whole=st.booleans(),
    )
    def fail(self, method: str, place: int, *, after: bool, whole: bool) -> None:
        """Let one of the next calls of a method raise; of a submission, for one member of a group or for all."""
        assert self.step is not None
        self.step.fail_at_next(method, after=after, place=place, whole=whole)

    def teardown(self) -> None:
        """Every request ends, unless engine and machine have parted already."""
        if self.step is not None and self.step.states:
            self.step.run_to_end()


class CancellingMachine(LockStepMachine):
    """Cancellation in every phase and from callbacks, and nothing that fails."""

    may_fail = False


class FailingMachine(LockStepMachine):
    """Calls that raise between draft, verification and commit."""

    may_cancel = False


class UndisturbedMachine(LockStepMachine):
    """Rounds and branches, left alone."""

    may_cancel = False
    may_fail = False


class PlainMachine(UndisturbedMachine):
    """Rounds without lookahead."""

    lookahead = (False,)


MACHINES: dict[str, type[LockStepMachine]] = {
    "everything": LockStepMachine,
    "cancelling": CancellingMachine,
    "failing": FailingMachine,
    "undisturbed": UndisturbedMachine,
    "plain": PlainMachine,
}
"""Machines by the name that checks give them."""
