"""The order-2 law: the next token depends on the current token and on one earlier token at a fixed lag.

A sharp head fetches the earlier token by rotary phase, an MLP with one unit for each pair of tokens recognises the
pair, and lm_head reads the table. A cached row that is stale, missing, doubled or at a wrong position puts another
token at that lag, so the law itself changes. Order 2 is the least order that shows a missed rollback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eredu_conformance.crafted.architecture import Decoder, Tensor, norm_gain
from eredu_conformance.crafted.attention import (
    LEAK_EXPONENT,
    Attention,
    even_width,
    lag_query,
    pair_vector,
    theta_for,
)
from eredu_conformance.crafted.checkpoint import CraftedCheckpoint
from eredu_conformance.crafted.tables import log_table, table

_GATE = 80.0
"""Gate of a pair unit: +40 when both tokens match and at most -40 otherwise, where silu is below 2e-16."""

_VOCABULARY_MAX = 12
"""One residual slot and one MLP unit for each pair of tokens: more would make large files and no new law."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LagCheckpoint(CraftedCheckpoint):
    """P(next | history) = probabilities[x[t], x[max(0, t - lag)], next], t the index of the last token.

    Before there are `lag` earlier tokens, the first token of the history stands in.

    Attributes:
        probabilities: Shape (V, V, V): current token, earlier token, next token.
        lag: How far back the earlier token is; 1 is the previous token.
        sliding: Rows that the layer may attend to (at least lag + 1), or None for full attention. With
            `lag = sliding - 1` the law depends on the very oldest row of the window.
    """

    lag: int = 1
    sliding: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "probabilities", table(self.probabilities, dimensions=3))
        if len(set(self.probabilities.shape)) != 1:
            raise ValueError(f"{self.name}: the table has shape {self.probabilities.shape}; expected a cube")
        self._check_vocabulary()
        if self.vocabulary > _VOCABULARY_MAX:
            raise ValueError(f"{self.name}: vocabulary was {self.vocabulary}; this law takes up to {_VOCABULARY_MAX}")
        reach = (self.context_limit if self.sliding is None else self.sliding) - 1
        if not 1 <= self.lag <= reach:
            raise ValueError(f"{self.name}: lag was {self.lag}; rows 1 to {reach} back can be seen")

    @property
    def decoder(self) -> Decoder:
        """Residual slots: current token (V), earlier token (V), pair of both (V * V)."""
        pairs = self.vocabulary**2
        return Decoder(
            architecture=self.architecture,
            vocabulary=self.vocabulary,
            hidden=2 * self.vocabulary + pairs,
            head_dim=even_width(self.vocabulary),
            intermediate=pairs,
            rope_theta=theta_for(self._omega, even_width(self.vocabulary)),
            context_limit=self.context_limit,
            window=self.sliding,
            eos=self.eos,
        )

    @property
    def _omega(self) -> float:
        """Half a turn over the whole context, so that a score falls strictly with the distance from the lag."""
        return float(np.pi / self.context_limit)

    def _logits(self, history: Sequence[int]) -> Tensor:
        earlier = history[max(0, len(history) - 1 - self.lag)]
        return np.asarray(log_table(self.probabilities)[history[-1], earlier])

    def _tensors(self) -> dict[str, Tensor]:
        decoder = self.decoder
        size = self.vocabulary
        tensors = decoder.silent_tensors()
        tensors["model.embed_tokens.weight"][:, :size] = np.eye(size)
        self._attention(decoder).install(decoder, tensors)
        self._install_pairs(decoder, tensors)
        rows = log_table(self.probabilities).reshape(size * size, size)
        tensors["lm_head.weight"][:, 2 * size :] = rows.T / norm_gain(decoder, 3.0)
        return tensors

    def _attention(self, decoder: Decoder) -> Attention:
        size, width = self.vocabulary, decoder.head_dim
        sharpness = LEAK_EXPONENT / (1 - np.cos(self._omega))
        outputs = np.zeros((decoder.hidden, width))
        outputs[size : 2 * size, :size] = np.eye(size)
        return Attention(
            queries=lag_query(width, lag=self.lag, omega=self._omega, sharpness=sharpness)[None],
            keys=np.tile(pair_vector(width, 0.0), (size, 1)),
            values=np.eye(size, width),
            outputs=outputs,
        )

    def _install_pairs(self, decoder: Decoder, tensors: dict[str, Tensor]) -> None:
        """MLP unit (a, b) writes 1 into its slot iff the current token is a and the earlier one is b.

        The bias of a gate is read from the sum of the current token's one-hot slots, which is always 1.
        """
        size = self.vocabulary
        gate, up = np.zeros((size, size, decoder.hidden)), np.zeros((size * size, decoder.hidden))
        gate[:, :, :size] = -1.5
        for token in range(size):
            gate[token, :, token] += 1.0
            gate[:, token, size + token] += 1.0
        up[:, :size] = 1.0
        gain = norm_gain(decoder, 2.0)
        tensors["model.layers.0.mlp.gate_proj.weight"][:] = _GATE * gate.reshape(size * size, -1) / gain
        tensors["model.layers.0.mlp.up_proj.weight"][:] = up / gain
        tensors["model.layers.0.mlp.down_proj.weight"][2 * size :] = np.eye(size * size) * (2 / _GATE)
