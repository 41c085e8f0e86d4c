"""From addressed keys to the numbers that decisions read: coins and Gumbel vectors, bit for bit the spec's words.

MLX's own categorical sampling is not used: its algorithm changes with the shape of its input, and its inverse
cumulative sum loses mass at a large vocabulary. A draw here is argmax(score + Gumbel noise), one row at a time, so it
is the same whatever else shares the call.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from eredu.contract.randomness import Words

_BELOW_ONE = 1.0 - 2.0**-24
"""Largest float32 below 1."""


def key_rows(keys: Sequence[Words]) -> mx.array:
    """Keys as an array of shape (rows, 2), uint32."""
    return mx.array(list(keys), dtype=mx.uint32)


# rule: randomness.generator
def words(keys: mx.array, count: int) -> mx.array:
    """Raw generator words, shape (rows, count), uint32, one row a key of `keys` (rows, 2)."""
    half = (count + 1) // 2
    if keys.shape[0] == 1:
        drawn = mx.random.split(keys[0], half)[None]
    else:
        drawn = mx.vmap(lambda key: mx.random.split(key, half))(keys)
    return drawn.reshape(keys.shape[0], 2 * half)[:, :count]


# rule: randomness.coin-exact
def coins(keys: mx.array) -> mx.array:
    """Uniform numbers on the grid of 2**-24 in [0, 1), shape (rows,), float32, exact."""
    return (words(keys, 1)[:, 0] >> 8).astype(mx.float32) * 2.0**-24


def gumbels(keys: mx.array, size: int) -> mx.array:
    """Standard Gumbel noise, shape (rows, size), float32.

    The uniform is taken near 0, where float32 is fine-grained, so the largest values reach 22.9 and ids as rare as
    one in 10**10 keep their chance.
    """
    return -_log_exponentials(keys, size)


# rule: randomness.gumbel-max
def _log_exponentials(keys: mx.array, size: int) -> mx.array:
    """Logarithms of standard exponentials, which are Gumbel noise but for the sign."""
    uniform = (words(keys, size).astype(mx.float32) + 0.5) * 2.0**-32
    return mx.log(-mx.log1p(-mx.minimum(uniform, _BELOW_ONE)))


# rule: randomness.gumbel-max
def draw(scores: mx.array, keys: mx.array) -> mx.array:
    """Draw one id a row from softmax(scores).

    Args:
        scores: Unnormalised log-probabilities, shape (rows, vocabulary), float32; -inf is never drawn.
        keys: Shape (rows, 2), uint32.

    Returns:
        Ids, shape (rows,), uint32; ties go to the lowest id.
    """
    return mx.argmax(scores - _log_exponentials(keys, scores.shape[-1]), axis=-1)
