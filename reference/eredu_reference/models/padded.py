"""A model whose logit rows are padded beyond its vocabulary, as checkpoints pad theirs for speed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eredu_reference.caches import Cache, Hidden
from eredu_reference.models.model import Model
from eredu_reference.rows import Row


@dataclass(frozen=True)
class PaddedModel:
    """Another model, with logits behind its own ids that name no token.

    Attributes:
        inner: The model.
        padding: Logits of the padding ids, which nothing trained.
    """

    inner: Model
    padding: tuple[float, ...] = (9.0,)

    @property
    def vocabulary(self) -> int:
        """Ids that name tokens."""
        return self.inner.vocabulary

    @property
    def context(self) -> int:
        """The inner model's."""
        return self.inner.context

    @property
    def fingerprint(self) -> str:
        """The inner model's."""
        return self.inner.fingerprint

    def new_cache(self) -> Cache:
        """The inner model's."""
        return self.inner.new_cache()

    def logits(self, cache: Cache) -> Row:
        """The inner row, then the padding: shape (vocabulary + padding,)."""
        return np.concatenate([self.inner.logits(cache), np.array(self.padding, dtype=np.float64)])

    def hidden(self, cache: Cache) -> Hidden:
        """The inner model's."""
        return self.inner.hidden(cache)
