"""The scheduler of eredu and the machine of the spec, action by action, side by side.

The machine is free where the engine's tokens decide. After each action its possible states are those successors that
look like what the engine has become: phase, cache, block, branch, output, events and statistics, read off the
executor's caches and the scheduler's public face, never off its trace. If none is left, the engine did what no rule
allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from eredu.contract.events import Event
from eredu.contract.options import AcceptanceRule, GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.contract.request import GenerationRequest
from eredu.scheduling.phase import Phase
from eredu_conformance.harness.grammar_state import GrammarState
from eredu_conformance.harness.grammars import bracket_grammar
from eredu_conformance.harness.instrumented_executor import METHODS, Fault, InjectedFaultError
from eredu_conformance.harness.table_pairs import Pair, table_pairs
from eredu_conformance.harness.table_schedule import TableSchedule, table_request
from eredu_spec import cancellation
from eredu_spec.drafting import Move
from eredu_spec.phases import LIVE, SUBMITTED
from eredu_spec.phases import Phase as MachinePhase
from eredu_spec.request import Request, Settings
from eredu_spec.scope import Scope
from eredu_spec.state import State, opened
from eredu_spec.statistics import Statistics
from eredu_spec.structure import Structure
from eredu_spec.successors import successors
from eredu_spec.trace import Replay

RAISING = tuple(method for method in METHODS if method not in {"open", "close"})
"""Calls of an executor behind which a request has failed."""

VOCABULARY = 4
PAIRS: dict[str, Pair] = table_pairs(VOCABULARY)


class DivergenceError(AssertionError):
    """The engine became what the machine cannot become."""


class Look(NamedTuple):
    """What can be seen of a request, in the engine and in the machine.

    Attributes:
        phase: Where it stands.
        finish: Why it ended, or None.
        cache: Length of the target cache; -1 where a failure released it.
        block: Proposals in flight, or promoted and waiting; -1 where neither is.
        branch: Tokens of the lookahead branch.
        output: Committed output tokens.
        told: Output tokens that its events told.
        publications: Events that told tokens.
        ends: Events that told its end.
        statistics: Its counters.
    """

    phase: str
    finish: str | None
    cache: int
    block: int
    branch: int
    output: int
    told: int
    publications: int
    ends: int
    statistics: Statistics


def machine_look(request: Request) -> Look:
    """The look of a request of the machine, between two turns."""
    waits = request.phase in {MachinePhase.READY_TO_DRAFT, MachinePhase.READY_TO_SUBMIT} and request.reused > 0
    flies = request.phase in SUBMITTED
    promoted = request.reused if waits else -1
    return Look(
        phase=request.phase.value,
        finish=request.finish,
        cache=-1 if request.finish == "failed" else len(request.rows),
        block=len(request.block) if flies else promoted,
        branch=len(request.branch),
        output=len(request.output),
        told=request.published,
        publications=request.statistics.rounds,
        ends=int(request.phase not in LIVE),
        statistics=request.statistics,
    )


class LockStep:
    """One schedule, driven beside the machine.

    Args:
        pair: A name of `table_pairs`.
        joins: Whether the executor joins the forwards of a group.
        options: The schedule.
    """

    def __init__(self, pair: str, *, joins: bool = True, **options: Any) -> None:
        self.pair = PAIRS[pair]
        self.options = MtpSchedulerOptions(**options)
        self.table = TableSchedule(
            self.pair.target, self.pair.drafter, options=self.options, react=self._react, joins=joins
        )
        self.scope = Scope(
            requests=(),
            ring=True,
            max_in_flight=self.options.max_in_flight,
            max_branches=self.options.max_branches,
            max_group=self.options.max_group,
        )
        self.states: tuple[State, ...] = ((),)
        self.replay = Replay()
        self.replayed = 0
        self.victims: list[int] = []
        self.victim_at_next_event: int | None = None

    # ---- actions -------------------------------------------------------------------------------------------------

    def join(
        self, prompt: list[int], *, rule: str | None = None, grammar: bool = False, seed: int = 0, **options: Any
    ) -> int:
        """Take in a request with the options of `GenerationOptions`; no rule is greedy. Return its number."""
        index = len(self.table.tables.sequences)
        wanted = GenerationOptions(
            acceptance=AcceptanceRule(rule or "rejection"),
            sampling=SamplingOptions(temperature=0.0 if rule is None else 1.0),
            seed=seed,
            **options,
        )
        constraint = GrammarState.before(bracket_grammar(VOCABULARY)) if grammar else None
        self.table.add(table_request(index, prompt, wanted, constraint=constraint))
        request = opened(self._settings(index, prompt, wanted, rule or "greedy"))
        self.states = tuple((*state, request) for state in self.states)
        self._compare("join", self.states)
        return index

    def turn(self) -> None:
        """Let the engine take a turn and the machine one of its own."""
        if self.table.scheduler.is_done:
            return
        raised = self._raises(self.table.scheduler.turn)
        followed = set(self._turns(self.scope))
        if raised:
            followed |= set(self._turns(replace(self.scope, failures=True)))
        self._compare("turn", self._without_victims(followed, raised=raised))

    def cancel(self, index: int) -> None:
        """Cancel a request between two turns."""
        self.victims.append(index)
        raised = self._raises(lambda: self.table.scheduler.cancel(index))
        self._compare(f"cancellation of request {index}", self._without_victims(self.states, raised=raised))

    def fail_at_next(self, method: str, *, after: bool, place: int = 0, whole: bool = False) -> None:
        """Let a call of an executor's method raise, before its work or behind it.

        Args:
            method: The method.
            after: Whether it does its work first.
            place: How many calls, members of a group counted singly, come first.
            whole: Whether a submission raises for its whole group.
        """
        executor = self.table.executor
        number = len(executor.called(method)) + 1 + place
        executor.faults += (Fault(method, number, after=after, whole=whole and method == "submit"),)

    def cancel_at_next_event(self, index: int) -> None:
        """Cancel a request from inside the next callback."""
        self.victim_at_next_event = index

    def run_to_end(self) -> None:
        """Disarm, and take turns until every request has ended."""
        self.table.executor.faults, self.victim_at_next_event = (), None
        while not self.table.scheduler.is_done:
            self.turn()
        finding = self.replay.unfinished(self.replayed)
        if finding is not None:
            raise DivergenceError(str(finding))
        for sequence in self.table.tables.sequences:
            self._compare_alone(sequence.request)

    def _react(self, event: Event) -> None:  # noqa: ARG002
        victim, self.victim_at_next_event = self.victim_at_next_event, None
        if victim is not None:
            self.victims.append(victim)
            self.table.scheduler.cancel(victim)

    def _raises(self, action: Callable[[], None]) -> bool:
        """Whether a call of the executor raised. If so, the end of its request is told, which may raise again."""
        try:
            action()
        except InjectedFaultError:
            failed = [each for each in self._numbers() if str(self.table.scheduler.finish(each)) == "failed"]
            if not self.table.executor.struck.issuperset(failed):
                self.states = ()
                raise DivergenceError(
                    f"requests {failed} failed, and {self.table.executor.struck} were struck"
                ) from None
            self._raises(lambda: self.table.scheduler.cancel(failed[0]))
            return True
        except Exception as error:
            self.states = ()
            raise DivergenceError(f"the engine raised {type(error).__name__}: {error}") from error
        return False

    def _numbers(self) -> list[int]:
        return [sequence.request.index for sequence in self.table.tables.sequences]

    def _settings(self, index: int, prompt: list[int], wanted: GenerationOptions, rule: str) -> Settings:
        traits = self.table.tables.traits
        return Settings(
            model=Structure(),
            number=index,
            prompt=(0,) * len(prompt),
            max_tokens=wanted.max_tokens,
            requested=wanted.max_proposals,
            rule=rule,
            lookahead_depth=wanted.branch_length if self.options.lookahead else None,
            window=self.options.adaptive_window if self.options.adaptive_lookahead else None,
            capability=traits.max_proposals,
            target_context=traits.target_context,
            drafter_context=traits.drafter_context,
            exact_promotion=traits.exact_promotion,
            needs_hidden=traits.needs_hidden,
            prefill_chunk=self.options.prefill_chunk,
            counts=True,
        )

    # ---- the machine ---------------------------------------------------------------------------------------------

    def _turns(self, scope: Scope) -> Iterator[State]:
        """Every state behind one turn: a resolution goes on until its events are out."""
        todo = [after for state in self.states for _, _, after in successors(state, scope)]
        while todo:
            state = todo.pop()
            if any(request.phase is MachinePhase.RESOLUTION for request in state):
                todo += [after for _, _, after in successors(state, scope)]
            else:
                yield state

    def _without_victims(self, states: Iterable[State], *, raised: bool) -> Iterable[State]:
        """The states behind the cancellations asked for; where something raised, one of them may have failed."""
        ends: list[Callable[[Request], Iterator[Move]]] = [cancellation.cancel]
        if raised:
            ends.append(cancellation.fail)
        for victim in self.victims:
            states = {after for state in states for after in _ended(state, victim, ends)}
        self.victims.clear()
        return states

    # ---- the comparison ------------------------------------------------------------------------------------------

    def _compare(self, action: str, states: Iterable[State]) -> None:
        """Keep the states that look like the engine, or raise."""
        expected = tuple(dict.fromkeys(states))
        seen = {number: self.look(number) for number in self._numbers()}
        self.states = tuple(
            state
            for state in expected
            if all(machine_look(request) == seen[request.settings.number] for request in state)
        )
        if not self.states:
            raise DivergenceError(f"behind a {action}: {_difference(seen, expected)}")
        self._follow_trace(action)

    def look(self, index: int) -> Look:
        """The look of a request of the engine."""
        scheduler = self.table.scheduler
        sequence = next(each for each in self.table.tables.sequences if each.request.index == index)
        phase, finish = scheduler.phase(index), scheduler.finish(index)
        block = -1
        if sequence.running is not None:
            block = sequence.running.block.count
        elif sequence.promoted is not None and phase in {Phase.READY_TO_DRAFT, Phase.READY_TO_SUBMIT}:
            block = sequence.promoted.count
        statistics = scheduler.request_statistics(index)
        told = [event for event in self.table.events if event.request == index and hasattr(event, "tokens")]
        return Look(
            phase=str(phase),
            finish=None if finish is None else str(finish),
            cache=-1 if finish is not None and str(finish) == "failed" else len(sequence.target),
            block=block,
            branch=0 if sequence.branch is None else sequence.branch.count,
            output=len(scheduler.output(index)),
            told=len(self.table.tokens(index)),
            publications=sum(bool(event.tokens) for event in told),
            ends=len(self.table.ends(index)),
            statistics=Statistics(*(getattr(statistics, name) for name in Statistics._fields)),
        )

    def _compare_alone(self, request: GenerationRequest) -> None:
        """Whoever came to an end of its own gave what it gives alone: the machine knows no tokens.

        Lookahead is off there; it may change none of the counters that are compared.
        """
        index = request.index
        if str(self.table.scheduler.finish(index)) in {"cancelled", "failed"}:
            return
        pair = self.pair
        alone = TableSchedule(pair.target, pair.drafter, options=replace(self.options, lookahead=False)).run(request)
        for name, seen, due in (
            ("tokens", self.table.tokens(index), alone.tokens(index)),
            ("finish", self.table.scheduler.finish(index), alone.scheduler.finish(index)),
            ("counters", self._counters(self.table, index), self._counters(alone, index)),
        ):
            if seen != due:
                raise DivergenceError(f"in company request {index} has {name} = {seen}, and alone {due}")

    @staticmethod
    def _counters(table: TableSchedule, index: int) -> tuple[tuple[int, ...], ...]:
        statistics = table.scheduler.request_statistics(index)
        return statistics.rounds_by_length, statistics.drafted_by_position, statistics.accepted_by_position

    def _follow_trace(self, action: str) -> None:
        """The trace of the action, too, is a run of the machine."""
        for event in self.table.trace[self.replayed :]:
            finding = self.replay.follow(self.replayed, event)
            if finding is not None:
                self.states = ()
                raise DivergenceError(f"behind a {action} the trace goes wrong: {finding}")
            self.replayed += 1


def _ended(state: State, number: int, ends: list[Callable[[Request], Iterator[Move]]]) -> Iterator[State]:
    """The state with one request cancelled or failed; as it is where that has ended already."""
    for place, request in enumerate(state):
        if request.settings.number == number:
            moved = [after for end in ends for _, _, after in end(request)] or [request]
            yield from ((*state[:place], after, *state[place + 1 :]) for after in moved)


def _difference(seen: dict[int, Look], expected: tuple[State, ...]) -> str:
    """Where the engine looks like none of the states, told of the state that is nearest."""
    if not expected:
        return "the machine allows no action here"

    def apart(state: State) -> list[str]:
        return [
            f"request {request.settings.number} has {name} = {value}, and the machine {due}"
            for request in state
            for name, value, due in zip(Look._fields, seen[request.settings.number], machine_look(request), strict=True)
            if value != due
        ]

    return "; ".join(apart(min(expected, key=lambda state: len(apart(state)))))
