"""The gated delta rule over whole sequences, chunk by chunk (Yang et al. 2024, arXiv 2412.06464).

One head holds a state S of shape (key, value). A token decays it by a, and writes what is new about its value:

    S_t = a_t S_{t-1} + k_t u_t^T,   u_t = b_t (v_t - (a_t S_{t-1})^T k_t),   o_t = S_t^T q_t

Inside a chunk the u of all tokens solve one unit triangular system, (I + A) U = b V - (b a K) S with the state S at
the chunk's begin, so only the states at the chunks' begins depend on each other, through one matrix product each.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

CHUNK = 64
"""Tokens a chunk."""


def gated_delta_rule(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, log_decay: torch.Tensor, beta: torch.Tensor
) -> torch.Tensor:
    """Outputs of a sequence from an empty state.

    Args:
        q: Scaled queries, shape (batch, heads, time, key), float32.
        k: Keys of unit length, same shape.
        v: Values, shape (batch, heads, time, value).
        log_decay: Logarithm of a, at most 0, shape (batch, heads, time).
        beta: Strength b of writing, in [0, 1], same shape.

    Returns:
        Shape (batch, heads, time, value).
    """
    time = q.shape[2]
    padding = -time % CHUNK
    q, k, v = (F.pad(each, (0, 0, 0, padding)).unflatten(2, (-1, CHUNK)) for each in (q, k, v))
    log_decay, beta = (F.pad(each, (0, padding)).unflatten(2, (-1, CHUNK)) for each in (log_decay, beta))
    total = log_decay.cumsum(-1)
    lower = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).tril()
    decay = (total[..., :, None] - total[..., None, :]).masked_fill(~lower, -torch.inf).exp()
    from_begin = total.exp()[..., None]
    inverse = UnitTriangularInverse.apply((beta[..., None] * (k @ k.mT) * decay).tril(-1))
    own = inverse @ (v * beta[..., None])
    of_state = inverse @ (k * (from_begin * beta[..., None]))
    to_end = k * (total[..., -1:] - total).exp()[..., None]
    states = _states(own, of_state, to_end, total[..., -1].exp())
    written = own - of_state @ states
    outputs = (q * from_begin) @ states + ((q @ k.mT) * decay) @ written
    return outputs.flatten(2, 3)[:, :, :time]


class UnitTriangularInverse(torch.autograd.Function):
    """(I + A)^-1 of strictly lower triangular A, by matrix products alone.

    The inverses T of the diagonal blocks of one size give those of twice the size: T - T E T, with E the blocks of A
    that join them. Triangular solves of many small matrices are much slower on a GPU, and so are their gradients.
    """

    @staticmethod
    def forward(context: Any, lower: torch.Tensor) -> torch.Tensor:
        """The inverse; shape (..., n, n), n a power of two."""
        size = lower.shape[-1]
        at = torch.arange(size, device=lower.device)
        inverse = torch.eye(size, dtype=lower.dtype, device=lower.device).expand_as(lower)
        block = 1
        while block < size:
            same_pair = at[:, None] // (2 * block) == at // (2 * block)
            joins = same_pair & (at[:, None] // block != at // block)
            inverse = inverse - inverse @ (lower * joins) @ inverse
            block *= 2
        context.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Gradient of A: -T^T G T^T below the diagonal."""
        (inverse,) = context.saved_tensors
        return (-inverse.mT @ gradient @ inverse.mT).tril(-1)


def _states(own: torch.Tensor, of_state: torch.Tensor, to_end: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """States at the chunks' begins, shape (batch, heads, chunks, key, value)."""
    identity = torch.eye(to_end.shape[-1], dtype=to_end.dtype, device=to_end.device)
    carried = kept[..., None, None] * identity - to_end.mT @ of_state
    added = to_end.mT @ own
    states = [torch.zeros_like(added[:, :, 0])]
    for chunk in range(added.shape[2] - 1):
        states.append(added[:, :, chunk] + carried[:, :, chunk] @ states[-1])
    return torch.stack(states, dim=2)
