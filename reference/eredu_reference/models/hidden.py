"""A target that shows a hidden state, and a drafter that reads it."""

from __future__ import annotations

from dataclasses import dataclass

from eredu_reference.caches import FullCache, Hidden
from eredu_reference.models.coded import CodedModel


def next_hidden(hidden: float, token: int, codes: int) -> float:
    """Hidden state behind `token`, from the one before it: a whole number below `codes`."""
    return float((3 * int(hidden) + token + 1) % codes)


@dataclass(frozen=True)
class HiddenModel(CodedModel):
    """The target: its hidden state folds in every input, and names its row."""

    def new_cache(self) -> FullCache:
        """A full-attention cache."""
        return FullCache()

    def code(self, cache: FullCache) -> int:
        """The hidden state."""
        return int(self.hidden(cache)[0])

    def hidden(self, cache: FullCache) -> Hidden:
        """Fold over all tokens in the cache."""
        state = 0.0
        for row in cache.content():
            state = next_hidden(state, row.token, len(self.rows))
        return (state,)


@dataclass(frozen=True)
class HiddenReader(CodedModel):
    """The drafter: it is given the hidden state before its last input, and knows nothing else of the past.

    With the rows of a `HiddenModel` it predicts exactly what that model would.
    """

    def new_cache(self) -> FullCache:
        """A full-attention cache whose rows hold the hidden state that came with each input."""
        return FullCache()

    def code(self, cache: FullCache) -> int:
        """The hidden state behind the last input."""
        return int(self.hidden(cache)[0])

    def hidden(self, cache: FullCache) -> Hidden:
        """One step on from the hidden state that came with the last input."""
        last = cache.content()[-1]
        before = last.hidden[0] if last.hidden else 0.0
        return (next_hidden(before, last.token, len(self.rows)),)
