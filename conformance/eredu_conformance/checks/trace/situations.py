"""Situations that bring out what a trace can show: requests and schedules in which one rule has something to decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from eredu_conformance.checks.pairs import every_pair
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import CheckpointPair
from eredu_conformance.protocol import Acceptance, Feature, Request, RunOptions, Schedule

DEPTH = 3
TOKENS = 18
Vary = Callable[[int, Request, CheckpointPair], Request]
"""What a situation makes of request number i of a pair."""


def _options(request: Request, **changes: object) -> Request:
    return replace(request, options=replace(request.options, **changes))  # type: ignore[arg-type]


def _without_proposals(index: int, request: Request, pair: CheckpointPair) -> Request:  # noqa: ARG001
    return _options(request, max_proposals=0)


def _small_budgets(index: int, request: Request, pair: CheckpointPair) -> Request:  # noqa: ARG001
    return _options(request, max_tokens=1 + index, max_proposals=4 - index % 4)


def _possible(pair: CheckpointPair) -> list[int]:
    """Ids that may follow the pair's prompt."""
    return [int(token) for token in (pair.target.next_distribution(pair.prompt) > 0).nonzero()[0]]


def _endings(index: int, request: Request, pair: CheckpointPair) -> Request:
    ids = _possible(pair)
    one = ids[index % len(ids)]
    return _options(request, eos_ids=(one,)) if index % 2 else _options(request, stop_sequences=((one,), (ids[0], one)))


def _grammars(index: int, request: Request, pair: CheckpointPair) -> Request:
    ids = _possible(pair)[:3]
    chain = tuple(tuple((token, state + 1) for token in ids) for state in range(2 + index))
    return _options(request, grammar=(*chain, ()))


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One situation.

    Attributes:
        name: Its name in ids of checks.
        rule: The rule that has most to decide in it; what a trace breaks is named by the finding.
        schedule: How the requests are scheduled.
        vary: What is made of each request.
        count: Requests of the run.
        ring: Whether turns are held to the ring as well.
        features: What the subject must declare, besides traces and seeds.
        settings: Settings that it must declare.
    """

    name: str
    rule: str
    schedule: Schedule = field(default_factory=Schedule)
    vary: Vary = lambda _index, request, *_: request
    count: int = 3
    ring: bool = False
    features: frozenset[Feature] = frozenset()
    settings: frozenset[str] = frozenset()

    def trial(self, pair_name: str, acceptance: Acceptance | None, seed: int) -> Trial:
        """The situation on a pair of checkpoints."""
        pair = every_pair()[pair_name]
        options = RunOptions(
            max_tokens=TOKENS, max_proposals=DEPTH, acceptance=acceptance, temperature=1.0 if acceptance else 0.0
        )
        trial = Trial.of(pair, options, schedule=self.schedule)
        trial = trial.seeded(seed, f"trace.{self.name}/{pair_name}", self.count)
        varied = tuple(self.vary(index, request, pair) for index, request in enumerate(trial.requests))
        return replace(trial, requests=varied)


_AHEAD = frozenset({Feature.LOOKAHEAD})
_ON = Schedule(lookahead=True)
_BOUNDED = frozenset({"max_in_flight"})

SITUATIONS = (
    Situation(name="rounds", rule="commit.order"),
    Situation(name="plain", rule="draft.empty-block-is-plain", vary=_without_proposals),
    Situation(name="ring", rule="scheduling.ring", ring=True, count=4, settings=_BOUNDED),
    Situation(
        name="prefill",
        rule="scheduling.prefill-in-chunks",
        schedule=Schedule(prefill_chunk=1),
        vary=lambda index, request, *_: replace(request, prompt=request.prompt + request.prompt[-1:] * (2 * index)),
        settings=frozenset({"prefill_chunk"}),
    ),
    Situation(name="budget", rule="draft.clip", schedule=_ON, vary=_small_budgets, count=6, features=_AHEAD),
    Situation(
        name="in-flight",
        rule="scheduling.in-flight-bound",
        schedule=Schedule(max_in_flight=1),
        ring=True,
        settings=_BOUNDED,
    ),
    Situation(
        name="submitted-alone",
        rule="scheduling.turn-uninterrupted",
        schedule=Schedule(max_group=1),
        ring=True,
        count=4,
        settings=frozenset({"max_group"}),
    ),
    Situation(name="lookahead", rule="promotion.consume-one-reuse-the-rest", schedule=_ON, features=_AHEAD),
    Situation(
        name="one-branch",
        rule="lookahead.bounded",
        schedule=Schedule(lookahead=True, max_branches=1),
        ring=True,
        features=_AHEAD,
        settings=frozenset({"max_branches"}),
    ),
    Situation(
        name="adaptive",
        rule="adaptive.disable-when-unpaid",
        schedule=Schedule(lookahead=True, adaptive_lookahead=True, adaptive_window=1),
        features=_AHEAD,
    ),
    Situation(
        name="endings",
        rule="terminal.nothing-behind",
        schedule=_ON,
        vary=_endings,
        count=4,
        features=_AHEAD,
        settings=frozenset({"eos_ids", "stop_sequences"}),
    ),
    Situation(
        name="grammar",
        rule="constraints.drafting-stops-at-completion",
        schedule=_ON,
        vary=_grammars,
        count=5,
        features=_AHEAD,
        settings=frozenset({"grammar"}),
    ),
    Situation(
        name="cancelled",
        rule="cancellation.leaves-no-trace",
        schedule=_ON,
        vary=lambda index, request, *_: replace(request, cancel_after=index * 2),
        count=5,
        features=_AHEAD | {Feature.CANCELLATION},
    ),
)
"""All situations."""
