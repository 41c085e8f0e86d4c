"""Scripted drafters: rows that were written down beforehand, one for each output position.

Always right, always wrong, right until j, an end-of-sequence id at j, an illegal id at j and a NaN row are scripts.
An empty drafter is any drafter whose cap is 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eredu_reference.caches import FullCache, Hidden
from eredu_reference.models.table import Probabilities
from eredu_reference.rows import Row, logits_of, one_hot


@dataclass(frozen=True)
class ScriptedModel:
    """One row for each output position; behind the script's end, its last row.

    Attributes:
        vocabulary: Ids of the model that it drafts for.
        prompt_length: Tokens before output position 0.
        script: By output position: an id (all mass on it), or the probabilities of a row (NaN allowed).
        context: Inputs that the model takes.
        fingerprint: Name of the tokenizer.
    """

    vocabulary: int
    prompt_length: int
    script: tuple[int | Probabilities, ...]
    context: int = 4096
    fingerprint: str = "toy"

    def new_cache(self) -> FullCache:
        """A full-attention cache, of which only the length is read."""
        return FullCache()

    def logits(self, cache: FullCache) -> Row:
        """Logarithms of the scripted row for the output position behind the last input."""
        position = min(len(cache.content()) - self.prompt_length, len(self.script) - 1)
        entry = self.script[max(position, 0)]
        row = one_hot(entry, self.vocabulary) if isinstance(entry, int) else np.array(entry, dtype=np.float64)
        return logits_of(row)

    def hidden(self, cache: FullCache) -> Hidden:  # noqa: ARG002
        """No hidden state."""
        return ()

    def with_entry(self, position: int, entry: int | Probabilities) -> ScriptedModel:
        """A copy with another entry at one output position."""
        return replace(self, script=(*self.script[:position], entry, *self.script[position + 1 :]))

    def wrong_from(self, position: int) -> ScriptedModel:
        """A copy that is right until `position` and wrong (by one id) from there on."""
        wrong = tuple((entry + 1) % self.vocabulary if isinstance(entry, int) else entry for entry in self.script)
        return replace(self, script=self.script[:position] + wrong[position:])
