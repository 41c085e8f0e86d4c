"""Acceptance of a block on the device: how many proposals stand, and the token that follows them.

Pure functions of scores, proposals and keys. `scores` are processed rows whose softmax is p or q; row i of the
target's comes after i proposals, and it has one row more than the drafter's. What no correct engine produces (NaN, a
drawn proposal with q = 0, an empty residual) is reported as a fault flag, which the host turns into an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import mlx.core as mx

from eredu.contract.options import AcceptanceRule
from eredu.mlx.draws import coins, draw

_GROUP = 128
"""Terms summed at once: a plain sum over 152 000 ids was measured to be off by 2.4e-4 of itself in float32."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Lazy arrays on the device.

    Attributes:
        accepted: Number of accepted proposals, shape (), int32.
        token: The bonus or the replacement, shape (1,), uint32.
        sound: Whether every number was one that a correct engine may produce, shape (), bool.
    """

    accepted: mx.array
    token: mx.array
    sound: mx.array


# rule: verify.same-law
def reject(
    proposals: mx.array,
    draft_scores: mx.array,
    target_scores: mx.array,
    *,
    coin_keys: mx.array,
    final_keys: mx.array,
) -> Verdict:
    """Rejection sampling (Leviathan et al. 2023): accept x iff u * q(x) < p(x), replace from (p - q)+.

    Args:
        proposals: Shape (k,), k >= 1.
        draft_scores: Shape (k, vocabulary).
        target_scores: Shape (k + 1, vocabulary).
        coin_keys: One a proposal, shape (k, 2).
        final_keys: Keys of the final token, one for each accepted length 0..k: k residual keys, then the target's,
            shape (k + 1, 2).
    """
    p_drawn, q_drawn = _probability_at(target_scores[:-1], proposals), _probability_at(draft_scores, proposals)
    # rule: verify.rejection-below-ratio, verify.first-rejection-ends
    accepted = _prefix_length(coins(coin_keys) * q_drawn < p_drawn)
    row = mx.minimum(accepted, proposals.shape[0] - 1)[None]
    # rule: verify.residual-positive-part
    residual = _excess(_log_softmax(target_scores[row]), _log_softmax(draft_scores[row]))
    return _verdict(accepted, residual, q_drawn, target_scores, final_keys)


# rule: verify.same-law
def verify_block(
    proposals: mx.array,
    draft_scores: mx.array,
    target_scores: mx.array,
    *,
    coin_keys: mx.array,
    final_keys: mx.array,
) -> Verdict:
    """Block verification (Sun et al. 2024, arXiv 2403.10444, Algorithm 2). Arguments as in `reject`.

    w_i = min(1, w_{i-1} p(x_i) / q(x_i)); length i is accepted with probability h_i = R / (R + 1 - w_i), where R is
    the mass of (w_i p - q)+ at the next row, and h_k = w_k. The longest accepted length stands.
    """
    count = proposals.shape[0]
    log_p, log_q = _log_softmax(target_scores[:-1]), _log_softmax(draft_scores)
    q_drawn = mx.exp(_at(log_q, proposals))
    ratios = mx.exp(_at(log_p, proposals)) / q_drawn
    weights = [mx.ones((), dtype=mx.float32)]
    for index in range(count):
        weights.append(mx.minimum(1.0, weights[-1] * ratios[index]))
    w = mx.stack(weights)
    excess = _excess(log_p, log_q, w[:-1, None])
    mass = _row_sums(excess)
    room = mass + (1.0 - w[:-1])  # 1 + mass would lose a small mass
    # rule: verify.block-longest-length
    chances = mx.where(room > 0, mass / mx.where(room > 0, room, 1.0), 0.0)
    chances = mx.concatenate([chances[1:], w[-1:]])
    lengths = mx.arange(1, count + 1)
    accepted = mx.where(coins(coin_keys) < chances, lengths, 0).max().astype(mx.int32)
    row = mx.minimum(accepted, count - 1)[None]
    # rule: verify.block-residual
    return _verdict(accepted, excess[row], q_drawn, target_scores, final_keys)


RULES: Mapping[AcceptanceRule, Callable[..., Verdict]] = {
    AcceptanceRule.REJECTION: reject,
    AcceptanceRule.BLOCK: verify_block,
}
"""The rules that read p and q, by name; under the others the target's own tokens decide."""


def _verdict(
    accepted: mx.array, residual: mx.array, q_drawn: mx.array, target_scores: mx.array, final_keys: mx.array
) -> Verdict:
    """The verdict after `accepted` proposals; `residual`, shape (1, vocabulary), replaces the first rejected one."""
    # rule: bonus.after-full-acceptance, bonus.from-target
    complete = accepted == q_drawn.shape[0]
    scores = mx.where(complete, target_scores[-1:], mx.log(residual))
    token = draw(scores, final_keys[accepted[None]])
    # rule: verify.invalid-is-error
    sound = (complete | (residual.max() > 0)) & (q_drawn > 0).all() & _finite_rows(target_scores)
    return Verdict(accepted, token, sound)


def _excess(log_p: mx.array, log_q: mx.array, weight: mx.array | None = None) -> mx.array:
    """(weight * p - q)+ from logarithms, exact to a few units in the last place of its own size.

    Subtracting the probabilities would lose an excess smaller than their rounding: p = (1 - 1e-8, 1e-8) and
    q = (1 - 2e-8, 2e-8) leave 1e-8 for id 0, and nothing in float32.
    """
    weighted = log_p if weight is None else log_p + mx.log(weight)
    excess = -mx.exp(weighted) * mx.expm1(mx.minimum(log_q - weighted, 0.0))
    return mx.where(weighted == -math.inf, 0.0, excess)


def _log_softmax(scores: mx.array) -> mx.array:
    """Logarithms of the probabilities, close to 0 too: the largest term stays out of the sum that is taken log1p of."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    top = mx.arange(scores.shape[-1]) == mx.argmax(shifted, axis=-1, keepdims=True)
    return shifted - mx.log1p(_row_sums(mx.where(top, 0.0, mx.exp(shifted)))[..., None])


def _probability_at(scores: mx.array, ids: mx.array) -> mx.array:
    """Probability of one id a row, shape (rows,)."""
    return mx.exp(_at(scores, ids) - _in_two_levels(mx.logsumexp, scores))


def _at(rows: mx.array, ids: mx.array) -> mx.array:
    return mx.take_along_axis(rows, ids[:, None], axis=-1)[:, 0]


def _row_sums(values: mx.array) -> mx.array:
    return _in_two_levels(mx.sum, values)


def _in_two_levels(reduce: Callable[..., mx.array], values: mx.array) -> mx.array:
    """Reduction of each row, shape (rows,): of groups first, then of what they gave."""
    rows, size = values.shape
    bulk = size - size % _GROUP
    if bulk == 0:
        return reduce(values, axis=-1)
    groups = reduce(values[:, :bulk].reshape(rows, bulk // _GROUP, _GROUP), axis=-1)
    return reduce(groups if bulk == size else mx.concatenate([groups, values[:, bulk:]], axis=-1), axis=-1)


def _prefix_length(accepted: mx.array) -> mx.array:
    """How many proposals stand before the first that does not, shape (), int32.

    A product over one proposal alone, used as an index, was measured to read foreign memory on CUDA (MLX 0.32.4).
    """
    rejected = mx.concatenate([mx.logical_not(accepted), mx.array([True])])
    return mx.argmax(rejected.astype(mx.int32)).astype(mx.int32)


def _finite_rows(scores: mx.array) -> mx.array:
    """Whether every row has a finite maximum: no NaN, no +inf, and at least one id left."""
    return (mx.abs(scores.max(axis=-1)) < math.inf).all()
