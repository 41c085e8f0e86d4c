"""The memory law: the next token depends on every cached row, by a weighted count of the tokens.

With `fading = 0` attention is uniform, so the law is a function of the counts of the tokens in view: a row too many,
too few, doubled or stale changes a count. With `fading > 0` a row counts less the farther back it is, so the
order and the positions of all rows matter too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eredu_conformance.crafted.architecture import NORM_EPSILON, Decoder, Tensor, norm_gain
from eredu_conformance.crafted.attention import Attention, even_width, lag_query, pair_vector, theta_for
from eredu_conformance.crafted.checkpoint import CraftedCheckpoint
from eredu_conformance.crafted.tables import log_table, table

_TYPICAL_SQUARES = 1.5
"""Squared residual (one-hot token 1, typical memory 0.5) at which the final norm's gain counts as 1."""


@dataclass(frozen=True, eq=False, kw_only=True)
class MemoryCheckpoint(CraftedCheckpoint):
    """logits = g(m) * (log probabilities[current] + m @ gains), m the weighted share of each token in view.

    m = sum over rows at lag d of w[d] * one-hot, w = softmax(fading * cos(pi * d / context_limit)) over the rows in
    view. g(m) = sqrt((1.5 / H + eps) / ((1 + |m|^2) / H + eps)) is the final RMS norm, H the hidden size (2 V).

    Attributes:
        probabilities: Shape (V, V), the part of the current token.
        gains: Shape (V, V): what the full share of token i in memory adds to the logit of token j.
        fading: 0 is uniform attention; larger values forget faster.
        sliding: Rows in view, the current one counted; None is all.
    """

    gains: Tensor
    fading: float = 0.0
    sliding: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "probabilities", table(self.probabilities))
        square = (self.vocabulary, self.vocabulary)
        if self.probabilities.shape != square or self.gains.shape != square:
            raise ValueError(
                f"{self.name}: shapes were {self.probabilities.shape} and {self.gains.shape}; expected {square} twice"
            )
        if self.fading < 0:
            raise ValueError(f"{self.name}: fading was {self.fading}; expected 0 or more")
        self._check_vocabulary()

    @property
    def decoder(self) -> Decoder:
        """Residual slots: current token (V), memory (V)."""
        width = even_width(self.vocabulary)
        return Decoder(
            architecture=self.architecture,
            vocabulary=self.vocabulary,
            hidden=2 * self.vocabulary,
            head_dim=width,
            rope_theta=theta_for(self._omega, width),
            context_limit=self.context_limit,
            window=self.sliding,
            eos=self.eos,
        )

    @property
    def _omega(self) -> float:
        return float(np.pi / self.context_limit)

    def memory(self, history: Sequence[int]) -> Tensor:
        """Weighted share of each token among the rows in view after `history`, shape (V,), sum 1."""
        view = np.asarray(history[-self.sliding :] if self.sliding else history)
        lags = np.arange(len(view))[::-1]
        weights = np.exp(self.fading * (np.cos(self._omega * lags) - 1))
        return np.bincount(view, weights=weights / weights.sum(), minlength=self.vocabulary).astype(np.float64)

    def _logits(self, history: Sequence[int]) -> Tensor:
        memory = self.memory(history)
        width = 2 * self.vocabulary
        typical, actual = _TYPICAL_SQUARES / width, (1 + float(memory @ memory)) / width
        gain = np.sqrt((typical + NORM_EPSILON) / (actual + NORM_EPSILON))
        return np.asarray(gain * (log_table(self.probabilities)[history[-1]] + memory @ self.gains))

    def _tensors(self) -> dict[str, Tensor]:
        decoder = self.decoder
        size, width = self.vocabulary, decoder.head_dim
        tensors = decoder.silent_tensors()
        tensors["model.embed_tokens.weight"][:, :size] = np.eye(size)
        outputs = np.zeros((decoder.hidden, width))
        outputs[size:, :size] = np.eye(size)
        attention = Attention(
            queries=lag_query(width, lag=0, omega=self._omega, sharpness=self.fading)[None],
            keys=np.tile(pair_vector(width, 0.0), (size, 1)),
            values=np.eye(size, width),
            outputs=outputs,
        )
        attention.install(decoder, tensors)
        readout = np.concatenate([log_table(self.probabilities), self.gains])
        tensors["lm_head.weight"] = readout.T / norm_gain(decoder, _TYPICAL_SQUARES)
        return tensors
