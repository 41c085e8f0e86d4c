"""Schedules drawn from a seed: pairs, requests, options, cancellations and failures of every kind, run to their ends.

What is drawn reaches every phase, every finish and every fate of a branch; what comes out is for a judge that knows
what may follow what, such as the replay of its trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from eredu.contract.events import Event
from eredu.contract.options import AcceptanceRule, GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.contract.request import GenerationRequest
from eredu_conformance.harness.grammar_state import GrammarState
from eredu_conformance.harness.grammars import bracket_grammar
from eredu_conformance.harness.instrumented_executor import METHODS, Fault, InjectedFaultError
from eredu_conformance.harness.table_pairs import table_pairs
from eredu_conformance.harness.table_schedule import TableSchedule, table_request
from eredu_conformance.harness.table_sequence import require

VOCABULARY = 4
PAIRS = table_pairs(VOCABULARY)
GRAMMAR = GrammarState.before(bracket_grammar(VOCABULARY))


def draw_request(random: Random, index: int, *, grammar: bool = True) -> GenerationRequest:
    """A request: every rule of acceptance, budgets from 1, ends of each kind, a grammar now and then if it may."""
    ids = range(VOCABULARY)
    options = GenerationOptions(
        max_tokens=random.randint(1, 14),
        max_proposals=random.randint(0, 4),
        lookahead_depth=random.choice([None, None, 2, 3]),
        acceptance=random.choice(list(AcceptanceRule)),
        sampling=SamplingOptions(temperature=random.choice([0.0, 1.0])),
        seed=random.randrange(1000),
        eos_ids=frozenset(random.sample(ids, random.choice([0, 0, 1]))),
        stop_sequences=tuple(tuple(random.choices(ids, k=2)) for _ in range(random.choice([0, 0, 1]))),
    )
    constrained = random.random() < 0.25 and grammar
    prompt = [random.randrange(VOCABULARY) for _ in range(random.randint(1, 6))]
    return table_request(index, prompt, options, constraint=GRAMMAR if constrained else None)


def draw_options(random: Random) -> MtpSchedulerOptions:
    """A schedule with tight bounds, short windows and small chunks."""
    return MtpSchedulerOptions(
        lookahead=random.random() < 0.8,
        adaptive_lookahead=random.random() < 0.5,
        adaptive_window=random.randint(1, 3),
        max_in_flight=random.randint(1, 4),
        max_branches=random.randint(1, 2),
        prefill_chunk=random.randint(1, 3),
        max_group=random.choice([None, None, 1, 2, 3]),
    )


def draw_faults(random: Random, requests: int) -> tuple[Fault, ...]:
    """Calls that raise, before their work or behind it; none more often than not."""
    acting = [method for method in METHODS if method not in {"open", "close"}]
    return tuple(
        Fault(
            random.choice(acting),
            random.randint(1, 3),
            request=random.randrange(requests),
            after=random.random() < 0.5,
            whole=random.random() < 0.2,
        )
        for _ in range(random.choice([0, 0, 0, 1, 2]))
    )


@dataclass
class _Canceller:
    """Cancels a request from inside one callback in ten."""

    random: Random
    table: TableSchedule | None = None

    def __call__(self, event: Event) -> None:
        if self.table is not None and self.random.random() < 0.1:
            self.table.scheduler.cancel(event.request)


def run_random_schedule(seed: int) -> TableSchedule:
    """Draw a schedule, let requests join late, cancel some between turns and from callbacks, and run it to its end.

    The sparse pair gets no grammar: its zeros may leave no legal token, which is an error of the request.
    """
    random = Random(seed)  # noqa: S311 (a test case, not a secret)
    name = random.choice(sorted(PAIRS))
    pair = PAIRS[name]
    count = random.randint(1, 4)
    canceller = _Canceller(random)
    table = TableSchedule(
        pair.target,
        pair.drafter,
        options=draw_options(random),
        faults=draw_faults(random, count),
        react=canceller,
        joins=random.random() < 0.5,
    )
    if random.random() < 0.3:
        canceller.table = table
    waiting = [draw_request(random, index, grammar=name != "sparse") for index in range(count)]
    table.add(waiting.pop(0))
    while waiting or not table.scheduler.is_done:
        if waiting and random.random() < 0.3:
            table.add(waiting.pop(0))
        _turn_or_cancel(table, random)
    require(all(sequence.closed for sequence in table.tables.sequences), f"schedule {seed} left a sequence open")
    return table


def _turn_or_cancel(table: TableSchedule, random: Random) -> None:
    try:
        if random.random() < 0.03:
            table.scheduler.cancel(random.randrange(len(table.tables.sequences)))
        elif not table.scheduler.is_done:
            table.scheduler.turn()
    except InjectedFaultError:
        return
