"""The summary of a verification: the one array that comes to the host each round, and how it is read there.

Each array that the host reads costs a synchronisation of its own, so proposals, tokens and soundness travel together.
Under greedy decoding and the coupled rule the target's own token at every row travels, and the host finds the first
one that differs: the device need not compute what the host sees at a glance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self, cast

import mlx.core as mx

from eredu.contract.errors import AcceptanceError
from eredu.contract.executor import VerificationOutcome
from eredu.mlx.acceptance import Verdict
from eredu.mlx.fusion import fused

UNSOUND = 2**32 - 1
"""Stands for a token where the numbers are none that a correct engine produces. No vocabulary is that large."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What the host has to know of a verification, on the device.

    Attributes:
        array: Shape (k + k + 1,) with one token a row, else (k + 2,); uint32. The proposals come first.
        count: k, the number of proposals.
        by_row: Whether the target's own token at every row follows, else the accepted length and the final token.
    """

    array: mx.array
    count: int
    by_row: bool

    # rule: draft.empty-block-is-plain
    @classmethod
    def of_rows(cls, proposals: mx.array | None, tokens: mx.array, scores: mx.array) -> Self:
        """Summary of the target's own tokens: plain decoding, greedy decoding and the coupled rule.

        Args:
            proposals: Shape (k,), uint32; None where there are none.
            tokens: The target's token at each row, shape (k + 1,), uint32.
            scores: The rows, shape (k + 1, vocabulary).
        """
        checked = _checked(tokens, scores)
        if proposals is None:
            return cls(checked, 0, by_row=True)
        return cls(mx.concatenate([proposals, checked]), proposals.shape[0], by_row=True)

    @classmethod
    def of_verdict(cls, proposals: mx.array, verdict: Verdict) -> Self:
        """Summary of what an acceptance rule said on the device. Proposals: shape (k,), uint32."""
        found = mx.concatenate([verdict.accepted[None].astype(mx.uint32), verdict.token])
        found = mx.where(verdict.sound, found, UNSOUND)
        return cls(mx.concatenate([proposals, found]), proposals.shape[0], by_row=False)

    # rule: verify.invalid-is-error
    def read(self) -> VerificationOutcome:
        """The outcome, on the host. Raises `AcceptanceError` for numbers that no correct engine produces."""
        values = cast("list[int]", self.array.tolist())
        proposals, rest = values[: self.count], values[self.count :]
        if UNSOUND in rest:
            raise AcceptanceError(
                "the numbers of a verification are not those of a correct engine: a target row without a finite "
                "maximum, a proposal that its own distribution excludes, or an empty residual. Check the weights for "
                "NaN and infinities, and whether a constraint or a filter left a row without any token"
            )
        accepted, token = _common_prefix(proposals, rest) if self.by_row else rest
        return VerificationOutcome(tuple(proposals), accepted, token)


# rule: verify.greedy-argmax, verify.coupled-shared-vector, verify.first-rejection-ends
def _common_prefix(proposals: list[int], tokens: list[int]) -> tuple[int, int]:
    """How many proposals are the target's own tokens, and its token behind them."""
    pairs = zip(proposals, tokens[:-1], strict=True)
    accepted = next((place for place, (mine, other) in enumerate(pairs) if mine != other), len(proposals))
    return accepted, tokens[accepted]


@fused
def _checked(tokens: mx.array, scores: mx.array) -> mx.array:
    """Tokens, `UNSOUND` at rows without a finite maximum: NaN, +inf, or no id left."""
    finite = mx.abs(scores.max(axis=-1)) < math.inf
    return mx.where(finite, tokens, mx.array(UNSOUND, dtype=mx.uint32))
