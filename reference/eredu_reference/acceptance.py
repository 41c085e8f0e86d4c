"""The acceptance rules as pure functions on rows of float64. Each says how many proposals are taken.

Shapes, for k proposals over a vocabulary of V ids: `proposals` (k,), `target_rows` (k + 1, V) with the row behind the
last proposal, `draft_rows` (k, V). Rows are processed distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from eredu_reference.errors import AcceptanceError
from eredu_reference.rows import Row
from eredu_reference.sources import Uniform

Accepts = Callable[[Uniform, float, float], bool]
"""Whether a coin u accepts a proposal with target probability p and draft probability q."""


def accepts(coin: Uniform, target: float, draft: float) -> bool:
    """Whether u * q < p, strictly. Raises `AcceptanceError` where no drawn proposal could have such a q."""
    if not draft > 0:
        raise AcceptanceError(f"a drawn proposal had q = {draft}; record the distribution that it was drawn from")
    if not 0 <= target <= 1 + 1e-9:
        raise AcceptanceError(f"a proposal had p = {target}, which is no probability")
    return coin.below(target, draft)


def residual(target: Row, draft: Row, weight: float = 1.0) -> Row:
    """(weight * p - q)+ normalised, shape (V,). Raises `AcceptanceError` if nothing is left."""
    excess = np.maximum(weight * target - draft, 0.0)
    total = float(excess.sum())
    if not total > 0:
        raise AcceptanceError(f"the residual of p = {target.tolist()} and q = {draft.tolist()} is empty")
    return excess / total


def rejection_length(
    proposals: Sequence[int],
    target_rows: Sequence[Row],
    draft_rows: Sequence[Row],
    coin: Callable[[int], Uniform],
    accepts: Accepts = accepts,
) -> int:
    """Leviathan et al. 2023, Algorithm 1: the proposals before the first one whose coin rejects it."""
    for index, token in enumerate(proposals):
        if not accepts(coin(index), float(target_rows[index][token]), float(draft_rows[index][token])):
            return index
    return len(proposals)


def block_weights(proposals: Sequence[int], target_rows: Sequence[Row], draft_rows: Sequence[Row]) -> list[float]:
    """w_0 = 1 and w_i = min(1, w_{i-1} * p_i(x_i) / q_i(x_i)), k + 1 numbers."""
    weights = [1.0]
    for index, token in enumerate(proposals):
        target, draft = float(target_rows[index][token]), float(draft_rows[index][token])
        if not draft > 0:
            raise AcceptanceError(f"a drawn proposal had q = {draft}; record the distribution that it was drawn from")
        weights.append(min(1.0, weights[-1] * target / draft))
    return weights


def block_threshold(
    weights: Sequence[float], length: int, target_rows: Sequence[Row], draft_rows: Sequence[Row]
) -> float:
    """h: the chance that this length (1 to k) is accepted, given that no longer one is."""
    weight = weights[length]
    if length == len(draft_rows):
        return weight
    room = float(np.maximum(weight * target_rows[length] - draft_rows[length], 0.0).sum())
    # 1 - weight first: room may be a rounding error of 1e-17, which room + 1 would swallow, leaving 0 / 0.
    return room / (room + (1.0 - weight)) if room > 0 else 0.0


def block_length(
    proposals: Sequence[int],
    target_rows: Sequence[Row],
    draft_rows: Sequence[Row],
    coin: Callable[[int], Uniform],
    threshold: Callable[..., float] = block_threshold,
) -> int:
    """Sun et al. 2024, Algorithm 2: the largest length whose own coin accepts it, 0 if none does."""
    weights = block_weights(proposals, target_rows, draft_rows)
    accepted = 0
    for length in range(1, len(proposals) + 1):
        if coin(length - 1).below(threshold(weights, length, target_rows, draft_rows)):
            accepted = length
    return accepted


def coupled_length(proposals: Sequence[int], tokens: Callable[[int], int]) -> int:
    """Daliri et al. 2024: the proposals before the first that is not the token its shared noise picks from p."""
    for index, token in enumerate(proposals):
        if tokens(index) != token:
            return index
    return len(proposals)


def greedy_length(proposals: Sequence[int], target_rows: Sequence[Row]) -> int:
    """The proposals before the first that is not the argmax of its row."""
    return coupled_length(proposals, lambda index: greedy_token(target_rows[index]))


def greedy_token(row: Row) -> int:
    """The argmax, lowest id on ties."""
    return int(np.argmax(row))
