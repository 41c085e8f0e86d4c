"""What the trained families share: norms, rotary positions, gated feed-forward, and attention over draft chains."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

Keys = tuple[torch.Tensor, torch.Tensor]
"""Keys and values of one pass over a sequence, each of shape (batch, heads, time, head)."""


class RMSNorm(nn.Module):
    """Root-mean-square norm (Zhang and Sennrich 2019, arXiv 1910.07467).

    Args:
        size: Width.
        eps: Added to the mean square.
        zero_centred: Whether the stored weight is an offset from one, as Qwen stores it.
    """

    def __init__(self, size: int, *, eps: float = 1e-6, zero_centred: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size) if zero_centred else torch.ones(size))
        self.eps = eps
        self.offset = 1.0 if zero_centred else 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise the last dimension, in float32."""
        wide = x.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (normed * (self.offset + self.weight)).to(x.dtype)


class GatedFeedForward(nn.Module):
    """SwiGLU (Shazeer 2020, arXiv 2002.05202)."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (..., hidden) to the same."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


def rotate(x: torch.Tensor, *, dims: int, theta: float, interleaved: bool) -> torch.Tensor:
    """Rotary positions (Su et al. 2021, arXiv 2104.09864) 0, 1, … on the first `dims` of the last dimension.

    `x` has the shape (batch, heads, time, head). Interleaved, pairs are neighbours; else they lie `dims` / 2 apart.
    """
    times = torch.arange(x.shape[2], device=x.device, dtype=torch.float32)
    frequencies = theta ** (-torch.arange(0, dims, 2, device=x.device, dtype=torch.float32) / dims)
    angles = times[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    turned, rest = x[..., :dims].float(), x[..., dims:]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
    else:
        a, b = turned.chunk(2, dim=-1)
        turned = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
    return torch.cat([turned.to(x.dtype), rest], dim=-1)


def attend(q: torch.Tensor, passes: tuple[Keys, ...], scale: float) -> torch.Tensor:
    """Causal attention of the last pass's queries, shape (batch, heads, time, head).

    With several passes these are the iterations of a prediction head. The d-th proposal behind position t is made by
    pass d at position t + d - 1, which sees what a decoder's cache holds then: pass 1 up to t, and of each pass m > 1
    one row, at t + m - 1.
    """
    if len(passes) == 1:
        k, v = passes[0]
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
    k, v = (torch.cat([each[i] for each in passes], dim=2) for i in (0, 1))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=chain_mask(q.shape[2], len(passes), q.device), scale=scale)


def chain_mask(time: int, passes: int, device: torch.device) -> torch.Tensor:
    """What pass number `passes` sees of itself and of those before it, shape (time, passes · time), bool."""
    at = torch.arange(time, device=device)
    behind = at[:, None] - at
    first = behind >= passes - 1
    return torch.cat([first, *(behind == passes - number for number in range(2, passes + 1))], dim=1)
