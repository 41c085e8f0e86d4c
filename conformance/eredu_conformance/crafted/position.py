"""The position law: the next token depends on the absolute position of the current one, modulo a small prime.

Every prompt begins with an anchor id that is never emitted again. Head r scores the anchor's row by the cosine of the
rotary phase between here and there, shifted by r positions, and every other row by 0: it sees the anchor iff the
position is within a quarter turn of r. These on/off bits name the residue of the position and their number is
constant, so the final norm is too. A forward pass at a wrong position answers with another residue's law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eredu_conformance.crafted.architecture import Decoder, Tensor, norm_gain
from eredu_conformance.crafted.attention import LEAK_EXPONENT, Attention, lag_query, pair_vector, theta_for
from eredu_conformance.crafted.checkpoint import CraftedCheckpoint, HistoryError
from eredu_conformance.crafted.tables import log_table, table

PERIODS = (7, 11, 13)
"""Primes: the pattern of bits then determines the residue by an invertible matrix."""

_HEAD_DIM = 4


@dataclass(frozen=True, eq=False, kw_only=True)
class PositionCheckpoint(CraftedCheckpoint):
    """P(next | history) is proportional to probabilities[x[t], next] * residues[t mod period, next].

    t is the index of the last token, so the anchor is at 0 and the law is stated for t >= 1.

    Attributes:
        probabilities: Shape (V, V); column `anchor` is 0.
        residues: Shape (period, V), all entries positive; the period is 7, 11 or 13.
        anchor: The id that begins every prompt.
    """

    residues: Tensor
    anchor: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "probabilities", table(self.probabilities))
        object.__setattr__(self, "residues", table(self.residues))
        self._check_vocabulary()
        if self.period not in PERIODS:
            raise ValueError(f"{self.name}: the period was {self.period}; expected one of {PERIODS}")
        if not np.all(self.residues > 0):
            raise ValueError(f"{self.name}: a residue gives a token probability 0; put zeros into probabilities")
        if np.any(self.probabilities[:, self.anchor] > 0):
            raise ValueError(f"{self.name}: id {self.anchor} is the anchor and must have probability 0 everywhere")

    @property
    def period(self) -> int:
        """Positions after which the law repeats."""
        return int(self.residues.shape[0])

    @property
    def prompt_start(self) -> tuple[int, ...]:
        """The anchor."""
        return (self.anchor,)

    @property
    def history_min(self) -> int:
        """2: alone, the anchor is the only row and every head sees it."""
        return 2

    @property
    def decoder(self) -> Decoder:
        """Residual slots: current token (V), bits (period), and unused ones up to a multiple of the heads."""
        slots = self.vocabulary + self.period
        return Decoder(
            architecture=self.architecture,
            vocabulary=self.vocabulary,
            hidden=slots + -slots % self.period,
            heads=self.period,
            head_dim=_HEAD_DIM,
            rope_theta=theta_for(2 * np.pi / self.period, _HEAD_DIM),
            context_limit=self.context_limit,
            bos=self.anchor,
            eos=self.eos,
        )

    def _logits(self, history: Sequence[int]) -> Tensor:
        if self.anchor in history[1:]:
            raise HistoryError(f"{self.name}: the anchor {self.anchor} stands at the beginning only")
        position = len(history) - 1
        return np.asarray(log_table(self.probabilities)[history[-1]] + np.log(self.residues[position % self.period]))

    def _bits(self) -> Tensor:
        """Row i: which heads see the anchor at position i (modulo the period), shape (period, period)."""
        index = np.arange(self.period)
        distance = (index[:, None] - index[None, :]) % self.period
        near = np.minimum(distance, self.period - distance) <= self.period // 4
        return np.asarray(near, dtype=np.float64)

    def _tensors(self) -> dict[str, Tensor]:
        decoder = self.decoder
        size = self.vocabulary
        tensors = decoder.silent_tensors()
        tensors["model.embed_tokens.weight"][:, :size] = np.eye(size)
        self._attention(decoder).install(decoder, tensors)
        bits = self._bits()
        readout = np.concatenate([log_table(self.probabilities), np.linalg.solve(bits, np.log(self.residues))])
        tensors["lm_head.weight"][:, : len(readout)] = readout.T / norm_gain(decoder, 1.0 + float(bits[0].sum()))
        return tensors

    def _attention(self, decoder: Decoder) -> Attention:
        omega = 2 * np.pi / self.period
        faintest = np.abs(np.cos(omega * np.arange(self.period))).min()
        sharpness = (LEAK_EXPONENT + np.log(self.context_limit)) / faintest
        keys, values = np.zeros((self.vocabulary, _HEAD_DIM)), np.zeros((self.vocabulary, _HEAD_DIM))
        keys[self.anchor], values[self.anchor, 0] = pair_vector(_HEAD_DIM, 0.0), 1.0
        outputs = np.zeros((decoder.hidden, self.period * _HEAD_DIM))
        for head in range(self.period):
            outputs[self.vocabulary + head, head * _HEAD_DIM] = 1.0
        return Attention(
            queries=np.stack(
                [lag_query(_HEAD_DIM, lag=r, omega=omega, sharpness=sharpness) for r in range(self.period)]
            ),
            keys=keys,
            values=values,
            outputs=outputs,
        )
