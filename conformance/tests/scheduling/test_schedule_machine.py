"""Any order of joining, turning, cancelling and failing, against a shadow model of what may be visible."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eredu.contract.events import Event
from eredu.contract.options import AcceptanceRule, GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.contract.request import GenerationRequest
from eredu.contract.terminal import FinishReason
from eredu.scheduling.phase import SUBMITTED, Phase
from eredu_conformance.harness.instrumented_executor import METHODS, Call, InjectedFaultError
from eredu_conformance.harness.table_pairs import table_pairs
from eredu_conformance.harness.table_schedule import TableSchedule, table_request
from eredu_conformance.harness.table_sequence import TableSequence
from eredu_reference.models import replay

PAIRS = table_pairs()
OFF = MtpSchedulerOptions().with_lookahead(False)


@dataclass
class Shadow:
    """What the machine knows of a request.

    Attributes:
        request: The request.
        tokens: What it gives when it is alone and lookahead is off.
        finish: How it ends then.
        may_cancel: Whether somebody asked to cancel it.
        failed: Whether one of its calls raised.
    """

    request: GenerationRequest
    tokens: tuple[int, ...]
    finish: FinishReason | None
    may_cancel: bool = False
    failed: bool = False


class ScheduleMachine(RuleBasedStateMachine):
    """Drives one schedule; `TableSchedule` checks events and bounds, `TableExecutor` calls and caches."""

    def __init__(self) -> None:
        super().__init__()
        self.shadows: dict[int, Shadow] = {}
        self.cancel_at_event: int | None = None
        self.fail_at: str | None = None

    @initialize(
        name=st.sampled_from(sorted(PAIRS)),
        max_in_flight=st.integers(1, 3),
        max_branches=st.integers(1, 2),
        lookahead=st.booleans(),
        window=st.none() | st.integers(1, 3),
        max_group=st.none() | st.integers(1, 3),
        joins=st.booleans(),
    )
    def start(
        self,
        name: str,
        max_in_flight: int,
        max_branches: int,
        lookahead: bool,
        window: int | None,
        max_group: int | None,
        joins: bool,
    ) -> None:
        self.pair = PAIRS[name]
        options = MtpSchedulerOptions(
            lookahead=lookahead,
            adaptive_lookahead=window is not None,
            adaptive_window=window or 8,
            max_in_flight=max_in_flight,
            max_branches=max_branches,
            max_group=max_group,
            prefill_chunk=2,
        )
        self.table = TableSchedule(self.pair.target, self.pair.drafter, options=options, react=self.react, joins=joins)
        self.checks = self.table.executor.hook
        self.table.executor.hook = self.hook

    def react(self, event: Event) -> None:
        victim, self.cancel_at_event = self.cancel_at_event, None
        if victim is not None:
            self.shadows[victim].may_cancel |= self.table.scheduler.finish(victim) is None
            self.table.scheduler.cancel(victim)

    def hook(self, call: Call) -> None:
        assert self.checks is not None
        self.checks(call)
        if call.method == self.fail_at:
            self.fail_at = None
            self.shadows[call.request].failed = True
            raise InjectedFaultError(call.method)

    @rule(
        prompt=st.lists(st.integers(0, 3), min_size=1, max_size=5),
        budget=st.integers(1, 12),
        depth=st.integers(0, 3),
        acceptance=st.sampled_from(AcceptanceRule),
        temperature=st.sampled_from([0.0, 1.0]),
        seed=st.integers(0, 99),
        eos=st.sets(st.integers(0, 3), max_size=1),
    )
    @precondition(lambda self: len(self.shadows) < 5)
    def join(
        self,
        prompt: list[int],
        budget: int,
        depth: int,
        acceptance: AcceptanceRule,
        temperature: float,
        seed: int,
        eos: set[int],
    ) -> None:
        index = len(self.shadows)
        options = GenerationOptions(
            max_tokens=budget,
            max_proposals=depth,
            acceptance=acceptance,
            sampling=SamplingOptions(temperature=temperature),
            seed=seed,
            eos_ids=frozenset(eos),
        )
        request = table_request(index, prompt, options)
        alone = TableSchedule(self.pair.target, self.pair.drafter, options=OFF).run(request)
        self.shadows[index] = Shadow(request, alone.tokens(index), alone.scheduler.finish(index))
        self.table.add(request)

    @rule(turns=st.integers(1, 6))
    def take_turns(self, turns: int) -> None:
        for _ in range(turns):
            try:
                self.table.scheduler.turn()
            except InjectedFaultError:
                assert any(shadow.failed for shadow in self.shadows.values())

    @rule(data=st.data())
    @precondition(lambda self: self.shadows)
    def cancel(self, data: st.DataObject) -> None:
        index = data.draw(st.sampled_from(sorted(self.shadows)))
        self.shadows[index].may_cancel |= self.table.scheduler.finish(index) is None
        try:
            self.table.scheduler.cancel(index)
        except InjectedFaultError:
            assert any(shadow.failed for shadow in self.shadows.values())
        assert self.table.scheduler.finish(index) is not None

    @rule(data=st.data())
    @precondition(lambda self: self.shadows)
    def cancel_at_the_next_event(self, data: st.DataObject) -> None:
        self.cancel_at_event = data.draw(st.sampled_from(sorted(self.shadows)))

    @rule(method=st.sampled_from([method for method in METHODS if method not in {"open", "close"}]))
    def fail_at_the_next(self, method: str) -> None:
        self.fail_at = method

    @invariant()
    def what_is_visible_is_a_beginning_of_what_the_request_gives_alone(self) -> None:
        for index, shadow in self.shadows.items():
            told = self.table.tokens(index)
            assert told == shadow.tokens[: len(told)]
            assert told == self.table.scheduler.output(index)[: len(told)]
            assert told == self.table.scheduler.output(index) or not self.table.scheduler._events.is_empty

    @invariant()
    def an_end_has_its_reason_and_is_told_once(self) -> None:
        for index, shadow in self.shadows.items():
            finish = self.table.scheduler.finish(index)
            if self.table.scheduler._events.is_empty:
                assert len(self.table.ends(index)) == (finish is not None)
            if finish is FinishReason.CANCELLED:
                assert shadow.may_cancel
            elif finish is FinishReason.FAILED:
                assert shadow.failed
            elif finish is not None:
                assert (self.table.tokens(index), finish) == (shadow.tokens, shadow.finish)

    @invariant()
    def the_caches_stand_at_the_committed_boundary(self) -> None:
        for sequence in self.table_sequences():
            phase = self.table.scheduler.phase(sequence.request.index)
            assert sequence.closed == (phase in {Phase.COMPLETED, Phase.CANCELLED})
            if sequence.closed or phase is Phase.PREFILL:
                continue
            rows = sequence.running.block.count + 1 if sequence.running is not None else 0
            assert (rows > 0) == (phase in SUBMITTED)
            inputs = sequence.tokens[:-1]
            if sequence.running is not None:
                inputs = [*sequence.tokens, *sequence.running.block.tokens]
            expected, _ = replay(self.pair.target, inputs)
            assert sequence.target.content() == expected.content()

    def table_sequences(self) -> list[TableSequence]:
        return self.table.tables.sequences if hasattr(self, "table") else []

    @invariant()
    def the_schedule_s_books_are_those_of_its_requests(self) -> None:
        if not self.shadows:
            return
        statistics = self.table.scheduler.statistics()
        statistics.requests.check()
        assert statistics.requests.emitted == sum(len(self.table.tokens(index)) for index in self.shadows)
        assert statistics.cancelled == sum(
            self.table.scheduler.finish(index) is FinishReason.CANCELLED for index in self.shadows
        )

    def teardown(self) -> None:
        self.fail_at = self.cancel_at_event = None
        if not hasattr(self, "table"):
            return
        self.table.scheduler.run()
        assert self.table.scheduler.is_done
        self.an_end_has_its_reason_and_is_told_once()
        assert all(self.table.scheduler.finish(index) is not None for index in self.shadows)


TestScheduleMachine = ScheduleMachine.TestCase
