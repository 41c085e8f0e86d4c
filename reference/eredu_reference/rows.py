"""One function from raw logits to the distribution that a token is drawn from, in float64.

The same function serves target and drafter, plain and speculative decoding, first rows and bonus rows. The order is
normative: mask, bias, repetition, frequency, presence, top-k, top-p, min-p, temperature.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eredu_reference.constraint import Mask
from eredu_reference.errors import AcceptanceError, ConstraintError
from eredu_reference.requests import Sampling

Row = NDArray[np.float64]
"""One number an id, shape (vocabulary,), float64: logits, or probabilities that sum to 1."""


def processed_row(
    logits: Row, *, history: tuple[int, ...], prompt_length: int, sampling: Sampling, mask: Mask | None
) -> Row:
    """The processed distribution of one row.

    Args:
        logits: Raw logits, shape (vocabulary,); -inf is probability 0.
        history: Every token before the row: prompt, output, and the proposals before it in its block.
        prompt_length: Where in `history` the generated tokens begin.
        sampling: The settings.
        mask: Allowed ids, or None for all.

    Returns:
        Probabilities, shape (vocabulary,). At temperature 0 all mass is on the argmax, the lowest id on ties.
    """
    if np.isnan(logits).any():
        raise AcceptanceError(f"the logits {logits.tolist()} hold NaN; find the model that made them, do not repair")
    scores = logits if mask is None else np.where(mask, logits, -np.inf)
    scores = penalised(scores, history=history, prompt_length=prompt_length, sampling=sampling)
    scores = filtered(scores, sampling=sampling)
    if not (scores > -np.inf).any():
        raise ConstraintError("no id is left in the row: mask, bias and filters forbid all of them")
    if sampling.temperature == 0:
        return one_hot(int(np.argmax(scores)), len(scores))
    return softmax(scores / sampling.temperature)


def penalised(scores: Row, *, history: tuple[int, ...], prompt_length: int, sampling: Sampling) -> Row:
    """Bias, then repetition, frequency and presence penalties."""
    scores = scores.copy()
    for token, bias in sampling.logit_bias.items():
        scores[token] += bias
    if sampling.repetition_penalty != 1:
        lately = history[-sampling.repeat_last_n :] if sampling.repeat_last_n else history
        for token in set(lately):
            factor = sampling.repetition_penalty
            scores[token] = scores[token] / factor if scores[token] > 0 else scores[token] * factor
    generated = history[prompt_length:]
    if sampling.frequency_penalty or sampling.presence_penalty:
        for token in set(generated):
            scores[token] -= sampling.frequency_penalty * generated.count(token) + sampling.presence_penalty
    return scores


def filtered(scores: Row, *, sampling: Sampling) -> Row:
    """Top-k, then top-p, then min-p; what goes becomes -inf."""
    if 0 < sampling.top_k < len(scores):
        smallest = np.sort(scores)[-sampling.top_k]
        scores = np.where(scores >= smallest, scores, -np.inf)
    if sampling.top_p < 1:
        mass = softmax(scores)
        before = np.array([mass[scores > score].sum() for score in scores])
        scores = np.where(before < sampling.top_p, scores, -np.inf)
    if sampling.min_p > 0:
        mass = softmax(scores)
        scores = np.where(mass < sampling.min_p * mass.max(), -np.inf, scores)
    return scores


def softmax(scores: Row) -> Row:
    """Probabilities of scores; -inf becomes exactly 0. All -inf is NaN-free but sums to 0, and callers refuse it."""
    top = scores.max()
    if top == -np.inf:
        return np.zeros_like(scores)
    mass: Row = np.exp(scores - top)
    result: Row = mass / mass.sum()
    return result


def one_hot(token: int, vocabulary: int) -> Row:
    """All mass on one id."""
    row = np.zeros(vocabulary, dtype=np.float64)
    row[token] = 1.0
    return row


def logits_of(probabilities: Row) -> Row:
    """Logits of a distribution: its logarithms, -inf for zeros."""
    with np.errstate(divide="ignore"):
        result: Row = np.log(probabilities)
    return result


def check_distribution(row: Row, *, name: str) -> None:
    """Raise `AcceptanceError` unless `row` holds non-negative numbers that sum to 1 (within 1e-9)."""
    if np.isnan(row).any():
        raise AcceptanceError(f"the {name} row {row.tolist()} holds NaN; find what made it, do not repair")
    if (row < 0).any() or abs(float(row.sum()) - 1) > 1e-9:
        raise AcceptanceError(f"the {name} row {row.tolist()} is no distribution: it sums to {float(row.sum())!r}")
