"""What a model is to the reference: a cache, and two functions of its content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from eredu_reference.caches import Cache, CacheRow, Hidden
from eredu_reference.errors import CacheError, RequestError
from eredu_reference.rows import Row


class Model(Protocol):
    """A next-token model."""

    @property
    def vocabulary(self) -> int:
        """Ids that may be fed and emitted."""
        ...

    @property
    def context(self) -> int:
        """Inputs that the model can take."""
        ...

    @property
    def fingerprint(self) -> str:
        """Names the tokenizer: two models read each other's ids only where it is equal."""
        ...

    def new_cache(self) -> Cache:
        """An empty cache of the model's kind."""
        ...

    def logits(self, cache: Any) -> Row:
        """Raw logits behind the last input, shape (rows,), rows >= vocabulary, a function of the cache's content."""
        ...

    def hidden(self, cache: Any) -> Hidden:
        """Hidden state behind the last input; empty where the model has none."""
        ...


@dataclass(frozen=True)
class Output:
    """What one input gives.

    Attributes:
        logits: Raw logits, shape (rows,), float64.
        hidden: Hidden state, for drafters that read it.
    """

    logits: Row
    hidden: Hidden = ()


def feed(model: Model, cache: Cache, token: int, position: int, hidden: Hidden = ()) -> Output:
    """Append one input to the cache and read the row behind it."""
    if not 0 <= token < model.vocabulary:
        raise RequestError(f"id {token} was fed to a model of {model.vocabulary} ids")
    if len(cache) >= model.context:
        raise CacheError(f"input {len(cache) + 1} was fed to a model whose context is {model.context}")
    cache.append(CacheRow(token, position, hidden))
    return Output(model.logits(cache), model.hidden(cache))


def replay(model: Model, tokens: Sequence[int], hiddens: Sequence[Hidden] = ()) -> tuple[Cache, list[Output]]:
    """A fresh cache fed with `tokens`, one at a time, at their own positions; and the rows."""
    cache = model.new_cache()
    rows = []
    for position, token in enumerate(tokens):
        rows.append(feed(model, cache, token, position, hiddens[position] if hiddens else ()))
    return cache, rows
