"""The scheduler of `eredu` over the toy models, with everything that it says collected and checked as it is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eredu.contract.constraint import Constraint
from eredu.contract.events import Event, RequestFinished, TokensCommitted
from eredu.contract.options import GenerationOptions, MtpSchedulerOptions
from eredu.contract.randomness import RequestRandomness
from eredu.contract.request import GenerationRequest
from eredu.contract.terminal import OutputText
from eredu.scheduling.scheduler import SpeculativeScheduler
from eredu_conformance.harness.grammar_state import GrammarState
from eredu_conformance.harness.instrumented_executor import Call, Fault, InstrumentedExecutor
from eredu_conformance.harness.table_decisions import reference_sampling
from eredu_conformance.harness.table_executor import TableExecutor
from eredu_conformance.harness.table_sequence import TableBlock, TableSequence, TableVerification, require
from eredu_reference.models import Drafter, Model
from eredu_reference.requests import AcceptanceRule, Request, TextOptions


def table_request(
    index: int,
    prompt: Sequence[int],
    options: GenerationOptions,
    *,
    constraint: Constraint | None = None,
    text: OutputText | None = None,
) -> GenerationRequest:
    """A request whose randomness is its own seed's (0 where it names none)."""
    randomness = RequestRandomness.from_seed(options.seed or 0)
    return GenerationRequest(index, tuple(prompt), options, randomness, constraint, text)


def reference_request(request: GenerationRequest, text: TextOptions | None = None) -> Request:
    """The same request as the reference writes it; `text` because a text state does not tell its vocabulary."""
    options, constraint = request.options, request.constraint
    return Request(
        prompt=request.prompt,
        max_tokens=options.max_tokens,
        sampling=reference_sampling(options.sampling),
        seed=options.seed or 0,
        acceptance=AcceptanceRule(options.acceptance.value),
        max_proposals=options.max_proposals,
        lookahead_depth=options.lookahead_depth,
        eos_ids=options.eos_ids or frozenset(),
        stop_sequences=options.stop_sequences,
        constraint=constraint.grammar if isinstance(constraint, GrammarState) else None,
        text=text,
    )


class TableSchedule:
    """A scheduler on an instrumented table executor.

    Each event is checked when it arrives: it appends, it tells nothing that the executor has not committed, the
    statistics balance, and nothing follows the end. Each submission and each branch is checked against the bounds.

    Args:
        target: The target.
        drafter: The drafter; None decodes plainly.
        options: The schedule.
        faults: Where the executor raises.
        delays_s: Seconds of the executor's calls.
        react: Called with every event after it was checked.
        joins: Whether the executor joins the forwards of a group.
    """

    def __init__(
        self,
        target: Model,
        drafter: Drafter | None = None,
        *,
        options: MtpSchedulerOptions | None = None,
        faults: tuple[Fault, ...] = (),
        delays_s: Mapping[str, float] | None = None,
        react: Callable[[Event], None] | None = None,
        joins: bool = True,
    ) -> None:
        self.options = options or MtpSchedulerOptions()
        self.tables = TableExecutor(target, drafter, joins=joins)
        self.executor: InstrumentedExecutor[TableSequence, TableBlock, TableVerification] = InstrumentedExecutor(
            self.tables, faults=faults, delays_s=delays_s or {}, hook=self._check_bounds
        )
        self.events: list[Event] = []
        self.trace: list[dict[str, Any]] = []
        self.react = react
        self.scheduler = SpeculativeScheduler(
            self.executor,
            options=self.options,
            sink=self._receive,
            trace=self.trace.append,
            clock=self.executor.clock,
        )

    def add(self, *requests: GenerationRequest) -> TableSchedule:
        """Take in requests."""
        for request in requests:
            self.scheduler.add(request)
        return self

    def run(self, *requests: GenerationRequest) -> TableSchedule:
        """Take in requests and run them to their ends."""
        self.add(*requests).scheduler.run()
        return self

    def tokens(self, index: int) -> tuple[int, ...]:
        """Output tokens of a request as its events told them."""
        return tuple(token for event in self._committed(index) for token in event.tokens)

    def text(self, index: int) -> str:
        """Text of a request as its events told it."""
        return "".join(event.text for event in self._committed(index))

    def ends(self, index: int) -> list[RequestFinished]:
        """Ends of a request as its events told them."""
        return [event for event in self.events if isinstance(event, RequestFinished) and event.request == index]

    def _committed(self, index: int) -> list[TokensCommitted]:
        return [event for event in self.events if isinstance(event, TokensCommitted) and event.request == index]

    def _receive(self, event: Event) -> None:
        index = event.request
        require(not self.ends(index), f"request {index} is told of behind its end: {event}")
        told = len(self.tokens(index))
        output = self.scheduler.output(index)
        statistics = self.scheduler.request_statistics(index)
        statistics.check()
        require(
            statistics.emitted == len(output), f"request {index} has {len(output)} tokens, its statistics {statistics}"
        )
        if isinstance(event, TokensCommitted):
            sequence = next(item for item in self.tables.sequences if item.request.index == index)
            after = told + len(event.tokens)
            require(event.position == told, f"request {index}: {event} does not append to {told} tokens")
            require(output == (*self.tokens(index), *event.tokens), f"request {index}: {event} is not {output}")
            require(
                tuple(sequence.tokens) == (*sequence.request.prompt, *output[:after]),
                f"request {index}: {event} was told before the executor committed it",
            )
        else:
            require(told == len(output), f"request {index} ends with {len(output) - told} tokens untold")
        self.events.append(event)
        if self.react is not None:
            self.react(event)

    def _check_bounds(self, call: Call) -> None:
        live = [sequence for sequence in self.tables.sequences if not sequence.closed]
        if call.method == "submit":
            flying = sum(sequence.running is not None for sequence in live)
            group, most = len(self.executor.groups[-1]), self.options.max_group
            require(flying + group <= self.options.max_in_flight, f"{call} in {group} with {flying} in flight")
            require(most is None or group <= most, f"{call} in a group of {group}")
        if call.method == "branch":
            branches = sum(sequence.branch is not None for sequence in live)
            require(branches < self.options.max_branches, f"{call} with {branches} branches alive")
