"""The processed distribution: one pure function from a row of logits to a row of scores.

Plain decoding, verification and drafting call this function and no other. Every row is computed by itself: which
rows share a call changes nothing.
"""

from __future__ import annotations

import math

import mlx.core as mx

from eredu.contract.options import SamplingOptions
from eredu.mlx.history import HistoryRows

_COLDEST = 2.0**-126
"""Smallest normal float32: below it nothing but the maximum is left anyway."""


# rule: verify.processed-order
def process_rows(
    logits: mx.array, options: SamplingOptions, *, mask: mx.array | None = None, history: HistoryRows | None = None
) -> mx.array:
    """Scores whose softmax is the processed distribution (whose argmax is the token, when greedy).

    Args:
        logits: Raw logits, shape (rows, vocabulary), any float dtype.
        options: The settings, applied in the order of `SamplingOptions`.
        mask: Allowed ids, shape (rows, vocabulary) or (1, vocabulary), bool; None allows all.
        history: What was said before each row; needed iff the options have penalties.

    Returns:
        Shape (rows, vocabulary), float32, -inf where an id is excluded.
    """
    scores = logits.astype(mx.float32)
    if mask is not None:
        # rule: constraints.mask-on-every-row
        scores = mx.where(mask, scores, -math.inf)
    if options.logit_bias:
        ids = mx.array(list(options.logit_bias))
        scores = scores.at[:, ids].add(mx.array(list(options.logit_bias.values()), dtype=mx.float32))
    if options.has_penalties:
        if history is None:
            raise ValueError("penalties need the history of each row")
        scores = _penalise(scores, options, history)
    scores = _filter(scores, options)
    return scores if options.is_greedy else _temper(scores, options.temperature)


def _temper(scores: mx.array, temperature: float) -> mx.array:
    """Scores by temperature, the largest of a row at 0: float32 is finest there, and no temperature overflows."""
    return (scores - scores.max(axis=-1, keepdims=True)) / max(temperature, _COLDEST)


def _penalise(scores: mx.array, options: SamplingOptions, history: HistoryRows) -> mx.array:
    if options.repetition_penalty != 1:
        penalty = options.repetition_penalty
        repeated = mx.where(scores > 0, scores / penalty, scores * penalty)
        scores = mx.where(history.recent(options.repeat_last_n), repeated, scores)
    if options.frequency_penalty != 0 or options.presence_penalty != 0:
        counts = history.generated()
        scores = scores - options.frequency_penalty * counts - options.presence_penalty * (counts > 0)
    return scores


def _filter(scores: mx.array, options: SamplingOptions) -> mx.array:
    vocabulary = scores.shape[-1]
    by_rank = 0 < options.top_k < vocabulary
    if by_rank and options.top_p == 1:
        kth = mx.partition(scores, vocabulary - options.top_k, axis=-1)[:, vocabulary - options.top_k, None]
        scores = mx.where(scores < kth, -math.inf, scores)
    elif by_rank or options.top_p < 1:
        ranked = mx.sort(scores, axis=-1)[:, ::-1]
        if by_rank:
            kth = ranked[:, options.top_k - 1, None]
            scores = mx.where(scores < kth, -math.inf, scores)
            ranked = mx.where(ranked < kth, -math.inf, ranked)
        if options.top_p < 1:
            scores = mx.where(scores < _nucleus_edge(ranked, options.top_p), -math.inf, scores)
    if options.min_p > 0:
        edge = scores.max(axis=-1, keepdims=True) + math.log(options.min_p)
        scores = mx.where(scores < edge, -math.inf, scores)
    return scores


def _nucleus_edge(ranked: mx.array, top_p: float) -> mx.array:
    """Smallest score inside the nucleus of descending rows, shape (rows, 1)."""
    masses = mx.softmax(ranked, axis=-1, precise=True)
    above = mx.cumsum(masses, axis=-1, inclusive=False)
    inside = mx.maximum((above < top_p).sum(axis=-1, keepdims=True), 1)
    return mx.take_along_axis(ranked, inside - 1, axis=-1)
