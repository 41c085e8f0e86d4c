"""The table law: the next token depends on the current one alone, by any table.

Embeddings are one-hot, attention and MLP are silent, so the final norm multiplies the one-hot residual by a constant
and lm_head reads off the logarithms. Each logit is one product, hence exact to the rounding of float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eredu_conformance.crafted.architecture import Decoder, Tensor, norm_gain
from eredu_conformance.crafted.checkpoint import CraftedCheckpoint
from eredu_conformance.crafted.tables import log_table, table


@dataclass(frozen=True, eq=False, kw_only=True)
class BigramCheckpoint(CraftedCheckpoint):
    """P(next | history) = probabilities[last token of the history, next].

    Attributes:
        probabilities: Shape (V, V), rows sum to 1; zeros are allowed.
        shift: Added to every logit. The law does not see it; a penalty that tests the sign of a logit does.
    """

    shift: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "probabilities", table(self.probabilities))
        if self.probabilities.shape[0] != self.vocabulary:
            raise ValueError(f"{self.name}: the table has shape {self.probabilities.shape}; expected a square")
        self._check_vocabulary()

    @property
    def decoder(self) -> Decoder:
        """One slot of the residual for each token."""
        return Decoder(
            architecture=self.architecture,
            vocabulary=self.vocabulary,
            hidden=self.vocabulary,
            context_limit=self.context_limit,
            eos=self.eos,
        )

    def _logits(self, history: Sequence[int]) -> Tensor:
        return np.asarray(log_table(self.probabilities)[history[-1]] + self.shift)

    def _tensors(self) -> dict[str, Tensor]:
        decoder = self.decoder
        tensors = decoder.silent_tensors()
        tensors["model.embed_tokens.weight"] = np.eye(self.vocabulary)
        tensors["lm_head.weight"] = (log_table(self.probabilities) + self.shift).T / norm_gain(decoder, 1.0)
        return tensors
