"""The benefit: acceptance by position, tokens a round, speed against plain decoding here, and the K that pays most.

Speed is measured on outputs, from the first token on, so that reading prompts does not count. The K is chosen from what
a whole round of each K takes on this machine, and how often a proposal at each place stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from eredu.contract.events import Event, TokensCommitted
from eredu.contract.executor import CommitPlan, SpeculativeExecutor, submit_alone
from eredu.contract.randomness import RequestRandomness
from eredu.contract.request import GenerationRequest
from eredu.contract.statistics import RequestStatistics
from eredu.prepared import PreparedRequest
from eredu_validation.measures.emissions import request_seed
from eredu_validation.measures.prompt_states import PROMPT_CHUNK
from eredu_validation.measures.prompts import EncodedPrompt
from eredu_validation.measures.subject import Subject

MOST = 6
"""Largest K that is tried."""
REPEATS = 4
"""Timings of each piece, of which the fastest counts: whatever else runs can only add."""
CONTEXT = 64
"""Tokens in the cache when rounds are timed."""


@dataclass(frozen=True, kw_only=True)
class CostPoint:
    """What one K would give.

    Attributes:
        proposals: K; 0 is plain decoding.
        tokens_per_round: Output tokens of a round.
        round_s: Seconds of a round.
        speed: Tokens a second over those of plain decoding.
    """

    proposals: int
    tokens_per_round: float
    round_s: float
    speed: float


@dataclass(frozen=True, kw_only=True)
class BenefitReport:
    """All of it.

    Attributes:
        acceptance: Chance that the proposal at each place of a block becomes output, the first place first.
        tokens_per_round: At the K that was asked for.
        asked: The K that was asked for.
        plain_tokens_per_s: Plain decoding, measured on outputs.
        tokens_per_s: With speculation, measured on the same prompts.
        curve: What each K would give.
    """

    acceptance: tuple[float, ...]
    tokens_per_round: float
    asked: int
    plain_tokens_per_s: float
    tokens_per_s: float
    curve: tuple[CostPoint, ...]

    @property
    def speed(self) -> float:
        """Measured speed over plain decoding's."""
        return self.tokens_per_s / self.plain_tokens_per_s

    @property
    def recommended(self) -> int:
        """The K of the greatest speed; 0 advises against speculation."""
        return max(self.curve, key=lambda point: point.speed).proposals

    @property
    def sentence(self) -> str:
        """In words."""
        first = f"the first proposal stands {self.acceptance[0]:.0%} of the time, " if self.acceptance else ""
        text = f"{first}{self.tokens_per_round:.2f} tokens a round, {self.speed:.2f} times plain decoding's speed here"
        best = max(self.curve, key=lambda point: point.speed)
        if best.proposals == 0:
            return f"{text}. Warning: speculation loses on this machine at every K, by what rounds cost; decode plainly"
        gain = f"{best.speed:.2f} times by what rounds cost"
        if best.proposals != self.asked:
            text += f"; K = {best.proposals} is best, with {gain}"
            return text if self.speed >= 1 else f"{text}. Warning: speculation loses with the K that was asked for"
        text += f"; K = {best.proposals} is the best, with {gain}"
        return text if self.speed >= 1 else f"{text}. Warning: on these outputs it lost; is the machine busy?"

    def to_json(self) -> dict[str, Any]:
        """The stable form."""
        return {**asdict(self), "speed": self.speed, "recommended": self.recommended, "text": self.sentence}


def measure_benefit(subject: Subject, prompts: Sequence[EncodedPrompt], *, seed: int, max_tokens: int) -> BenefitReport:
    """Measure on some prompts.

    Args:
        subject: What decodes.
        prompts: Its prompts.
        seed: Root of the requests.
        max_tokens: Tokens of an output.
    """
    widest = subject.with_options(max_proposals=MOST)
    options = replace(subject.options, max_tokens=max_tokens)
    requests = [
        PreparedRequest(prompt=prompt.tokens, options=replace(options, seed=request_seed(seed, 0, index)))
        for index, prompt in enumerate(prompts)
    ]
    half = -(-max_tokens // 2)
    deep = [
        replace(each, options=replace(each.options, max_proposals=widest.depth, max_tokens=half)) for each in requests
    ]
    plain_speed, _ = _decoded(subject, requests, plain=True)
    speed, statistics = _decoded(subject, requests)
    _, deep_statistics = _decoded(subject, deep)
    acceptance = _acceptance(RequestStatistics.total([statistics, deep_statistics]))
    rounds = _Rounds(subject, prompts[0].tokens, len(acceptance))
    empty_s, *rounds_s = subject.model.backend.lend_speculative(subject.assistant, rounds)
    # Plain decoding keeps the device busy between tokens, which a single empty round cannot.
    plain_s = min(empty_s, 1 / plain_speed)
    return BenefitReport(
        acceptance=acceptance,
        tokens_per_round=statistics.tokens_per_round,
        asked=subject.depth,
        plain_tokens_per_s=plain_speed,
        tokens_per_s=speed,
        curve=cost_curve(acceptance, [plain_s, *rounds_s]),
    )


def cost_curve(acceptance: Sequence[float], rounds_s: Sequence[float]) -> tuple[CostPoint, ...]:
    """What each K gives: 1 + sum of acceptance tokens in the seconds of a round, given from K = 0 on."""
    points = []
    for count, round_s in enumerate(rounds_s):
        tokens = 1 + sum(acceptance[:count])
        speed = tokens / round_s * rounds_s[0]
        points.append(CostPoint(proposals=count, tokens_per_round=tokens, round_s=round_s, speed=speed))
    return tuple(points)


def _decoded(
    subject: Subject, requests: Sequence[PreparedRequest], *, plain: bool = False
) -> tuple[float, RequestStatistics]:
    """Tokens a second behind the first that were committed (of all, where they came at once), and all statistics."""
    times: list[tuple[float, int]] = [(time.perf_counter(), 0)]

    def sink(event: Event) -> None:
        if isinstance(event, TokensCommitted):
            times.append((time.perf_counter(), len(event.tokens)))

    batch = subject.decode(requests, plain=plain, sink=sink)
    counted = times[1:] if len(times) > 2 else times
    seconds, tokens = counted[-1][0] - counted[0][0], sum(count for _, count in counted[1:])
    return tokens / seconds, RequestStatistics.total(each.statistics for each in batch.results)


def _acceptance(statistics: RequestStatistics) -> tuple[float, ...]:
    """Share of the proposals at each place that became output."""
    accepted, drafted = statistics.accepted_by_position, statistics.drafted_by_position
    padded = accepted + (0,) * (len(drafted) - len(accepted))
    return tuple(stood / made for stood, made in zip(padded, drafted, strict=True) if made)


def fastest(pieces: Sequence[Callable[[], None]]) -> list[float]:
    """Seconds of the fastest of several runs of each piece, the pieces taking turns, after one run that warms up."""
    seconds = [[_timed(piece) for piece in pieces] for _ in range(REPEATS + 1)]
    return [min(turns) for turns in zip(*seconds[1:], strict=True)]


def _timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@dataclass(frozen=True)
class _Rounds:
    """Receives the executor of decoding, and times whole rounds of 0 to `most` proposals on it."""

    subject: Subject
    text: Sequence[int]
    most: int

    def visit(self, executor: SpeculativeExecutor[Any, Any, Any]) -> list[float]:
        context = self.subject.target.context - (REPEATS + 1) * (self.most + 1) - self.most - 1
        prompt = (tuple(self.text) * CONTEXT)[: max(2, min(CONTEXT, context))]
        options = replace(self.subject.options, max_proposals=max(1, self.most))
        sequence = executor.open(GenerationRequest(0, prompt, options, RequestRandomness.from_seed(1)))
        while executor.prefill(sequence, PROMPT_CHUNK):
            pass

        def once(count: int) -> None:
            block = executor.draft(sequence, count, None, None)
            executor.wait(sequence, submit_alone(executor, sequence, block))
            # As if the first proposal had been rejected: the sequence goes on by one token, whatever the K.
            executor.commit(sequence, CommitPlan(kept=1, tokens=prompt[:1]), None)

        seconds = fastest([partial(once, count) for count in range(self.most + 1)])
        executor.close(sequence)
        return seconds
