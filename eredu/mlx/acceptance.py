"""Acceptance of a block on the device: how many proposals stand, and the token that follows them.

Pure functions of scores, proposals and keys. `scores` are processed rows whose softmax is p or q; row i of the
target's comes after i proposals, and it has one row more than the drafter's. What no correct engine produces (NaN, a
drawn proposal with q = 0, an empty residual) is reported as a fault flag, which the host turns into an error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mlx.core as mx

from eredu.mlx.draws import coins, draw


@dataclass(frozen=True, slots=True)
class Verdict:
    """Lazy arrays on the device.

    Attributes:
        accepted: Number of accepted proposals, shape (), int32.
        token: The bonus or the replacement, shape (), int32.
        sound: Whether every number was one that a correct engine may produce, shape (), bool.
    """

    accepted: mx.array
    token: mx.array
    sound: mx.array


def match(proposals: mx.array, targets: mx.array, scores: mx.array) -> Verdict:
    """Accept while the proposal is the target's own token: greedy decoding and the coupled rule.

    Args:
        proposals: Shape (k,).
        targets: The target's token at each row, shape (k + 1,).
        scores: The target's rows, shape (k + 1, vocabulary).
    """
    accepted = _prefix_length(proposals == targets[:-1])
    return Verdict(accepted, targets[accepted].astype(mx.int32), _finite_rows(scores))


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
    log_p, log_q = _log_softmax(target_scores), _log_softmax(draft_scores)
    p_drawn, q_drawn = mx.exp(_at(log_p[:-1], proposals)), mx.exp(_at(log_q, proposals))
    accepted = _prefix_length(coins(coin_keys) * q_drawn < p_drawn)
    token, sound = _final_token(log_p, log_q, accepted, mx.ones((), dtype=mx.float32), target_scores, final_keys)
    return Verdict(accepted, token, sound & _finite_rows(target_scores) & (q_drawn > 0).all())


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
    log_p, log_q = _log_softmax(target_scores), _log_softmax(draft_scores)
    p_drawn, q_drawn = mx.exp(_at(log_p[:-1], proposals)), mx.exp(_at(log_q, proposals))
    ratios = p_drawn / q_drawn
    weights = [mx.ones((), dtype=mx.float32)]
    for index in range(count):
        weights.append(mx.minimum(1.0, weights[-1] * ratios[index]))
    w = mx.stack(weights)
    mass = _excess(log_p[:-1], log_q, w[:-1, None]).sum(axis=-1)
    room = mass + 1.0 - w[:-1]
    chances = mx.where(room > 0, mass / mx.where(room > 0, room, 1.0), 0.0)
    chances = mx.concatenate([chances[1:], w[-1:]])
    lengths = mx.arange(1, count + 1)
    accepted = mx.where(coins(coin_keys) < chances, lengths, 0).max().astype(mx.int32)
    token, sound = _final_token(log_p, log_q, accepted, w[accepted], target_scores, final_keys)
    return Verdict(accepted, token, sound & _finite_rows(target_scores) & (q_drawn > 0).all())


def _final_token(
    log_p: mx.array,
    log_q: mx.array,
    accepted: mx.array,
    weight: mx.array,
    target_scores: mx.array,
    final_keys: mx.array,
) -> tuple[mx.array, mx.array]:
    """The token behind the accepted proposals, and whether its distribution has any mass."""
    count = log_q.shape[0]
    complete = accepted == count
    row = mx.minimum(accepted, count - 1)
    residual = _excess(log_p[row], log_q[row], weight)
    scores = mx.where(complete, target_scores[count], mx.log(residual))
    token = draw(scores[None], final_keys[accepted][None])[0]
    return token.astype(mx.int32), complete | (residual.max() > 0)


def _excess(log_p: mx.array, log_q: mx.array, weight: mx.array) -> mx.array:
    """(weight * p - q)+ from logarithms, exact to a few units in the last place of its own size.

    Subtracting the probabilities would lose an excess smaller than their rounding: p = (1 - 1e-8, 1e-8) and
    q = (1 - 2e-8, 2e-8) leave 1e-8 for id 0, and nothing in float32.
    """
    weighted = log_p + mx.log(weight)
    excess = -mx.exp(weighted) * mx.expm1(mx.minimum(log_q - weighted, 0.0))
    return mx.where(weighted == -math.inf, 0.0, excess)


def _log_softmax(scores: mx.array) -> mx.array:
    """Logarithms of the probabilities, close to 0 too: the largest term stays out of the sum that is taken log1p of."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    masses = mx.exp(shifted)
    top = mx.arange(scores.shape[-1]) == mx.argmax(shifted, axis=-1, keepdims=True)
    return shifted - mx.log1p(mx.where(top, 0.0, masses).sum(axis=-1, keepdims=True))


def _at(rows: mx.array, ids: mx.array) -> mx.array:
    return mx.take_along_axis(rows, ids[:, None], axis=-1)[:, 0]


def _prefix_length(accepted: mx.array) -> mx.array:
    return mx.cumprod(accepted.astype(mx.int32)).sum().astype(mx.int32)


def _finite_rows(scores: mx.array) -> mx.array:
    """Whether every row has a finite maximum: no NaN, no +inf, and at least one id left."""
    top = scores.max(axis=-1)
    return ((top > -math.inf) & (top < math.inf)).all()
