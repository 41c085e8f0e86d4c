"""The benefit: acceptance by position, tokens a round, speed against plain decoding here, and the K that pays most.

Speed is measured on outputs; the K is chosen from the costs of the pieces: what a verification of each width and a
draft step take on this machine, and how often a proposal at each place stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import mlx.core as mx

from eredu.loaded import PreparedRequest
from eredu.options import MAX_PROPOSALS
from eredu.statistics import RequestStatistics
from eredu.validation.emissions import request_seed
from eredu.validation.prompts import EncodedPrompt
from eredu.validation.subject import Subject

MOST = 6
"""Largest K that is tried."""
REPEATS = 4
"""Timings of each piece, of which the fastest counts: whatever else runs can only add."""
CONTEXT = 64
"""Tokens in the cache while a piece is timed."""


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
        plain_tokens_per_s: Plain decoding, measured on outputs.
        tokens_per_s: With speculation, measured on the same prompts.
        verify_s: Seconds of a verification by its rows, from 1.
        draft_s: Seconds of a draft step.
        curve: What each K would give.
    """

    acceptance: tuple[float, ...]
    tokens_per_round: float
    plain_tokens_per_s: float
    tokens_per_s: float
    verify_s: tuple[float, ...]
    draft_s: float
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
            return f"{text}. Warning: speculation loses on this machine at every K, by measured costs; decode plainly"
        text += f"; by measured costs K = {best.proposals} is best, with {best.speed:.2f} times"
        return text if self.speed >= 1 else f"{text}. Warning: speculation loses with the K that was asked for"

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
    plain_s, plain = _timed(lambda: subject.decode(requests, plain=True))
    with_s, batch = _timed(lambda: subject.decode(requests))
    books = [RequestStatistics.total(r.statistics for r in each.results) for each in (batch, subject.decode(deep))]
    acceptance = _acceptance(RequestStatistics.total(books))
    text = prompts[0].tokens
    pieces = _verifications(subject, text, len(acceptance) + 1)
    *verify_s, draft_s = fastest([*pieces, _draft_step(subject, text)])
    return BenefitReport(
        acceptance=acceptance,
        tokens_per_round=books[0].tokens_per_round,
        plain_tokens_per_s=sum(len(result.tokens) for result in plain.results) / plain_s,
        tokens_per_s=books[0].emitted / with_s,
        verify_s=tuple(verify_s),
        draft_s=draft_s,
        curve=cost_curve(acceptance, verify_s, draft_s),
    )


def cost_curve(acceptance: Sequence[float], verify_s: Sequence[float], draft_s: float) -> tuple[CostPoint, ...]:
    """What each K gives: 1 + sum of acceptance tokens a round, for a verification and K draft steps."""
    points = []
    for count in range(min(len(acceptance), MAX_PROPOSALS) + 1):
        tokens, round_s = 1 + sum(acceptance[:count]), verify_s[count] + count * draft_s
        speed = tokens / round_s * verify_s[0]
        points.append(CostPoint(proposals=count, tokens_per_round=tokens, round_s=round_s, speed=speed))
    return tuple(points)


def _acceptance(books: RequestStatistics) -> tuple[float, ...]:
    """Share of the proposals at each place that became output."""
    accepted, drafted = books.accepted_by_position, books.drafted_by_position
    padded = accepted + (0,) * (len(drafted) - len(accepted))
    return tuple(stood / made for stood, made in zip(padded, drafted, strict=True) if made)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def fastest(pieces: Sequence[Callable[[], None]]) -> list[float]:
    """Seconds of the fastest of several runs of each piece, the pieces taking turns, after one run that warms up."""
    seconds = [[_timed(piece)[0] for piece in pieces] for _ in range(REPEATS + 1)]
    return [min(turns) for turns in zip(*seconds[1:], strict=True)]


def _verifications(subject: Subject, text: Sequence[int], most: int) -> list[Callable[[], None]]:
    """Verifications of 1 to `most` rows behind one context."""
    target, cache = subject.target, subject.target.new_cache()
    _fill(cache, target.model, text, target.context)
    length = cache.length

    def once(rows: int) -> None:
        mx.eval(cache.feed(target.model, mx.array([text[-1]] * rows, dtype=mx.uint32)))
        cache.rollback(length)

    return [partial(once, rows) for rows in range(1, most + 1)]


def _draft_step(subject: Subject, text: Sequence[int]) -> Callable[[], None]:
    """One draft step: of the assistant, or of the first head."""
    token = mx.array([text[-1]], dtype=mx.uint32)
    if subject.draft is not None:
        model, cache = subject.draft, subject.draft.new_cache()
        _fill(cache, model.model, text, model.context)
        return lambda: mx.eval(cache.feed(model.model, token))
    heads = subject.heads
    if heads is None:
        raise ValueError("a subject without drafter has no draft step")
    _, record = subject.target.new_cache().feed_recorded(subject.target.model, token)
    hidden, stage = heads.hidden(record), heads.new_caches()[0]
    return lambda: mx.eval(heads.logits(0, heads.step(0, hidden, token, stage)))


def _fill(cache: Any, model: Any, text: Sequence[int], context: int) -> None:
    count = max(1, min(CONTEXT, context - MOST - REPEATS - 2))
    cache.prefill(model, (list(text) * count)[:count])
    mx.eval(*cache.arrays())
