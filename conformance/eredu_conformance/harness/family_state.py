"""What eredu's caches hold on a checkpoint of the zoo: rolled back against replayed, in chunks against in one piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from eredu.mlx.caches.sequence import SequenceCache
from eredu.mlx.caches.window import WindowCache
from eredu.mlx.models import FittedModel
from eredu_conformance.subjects.family import FamilyModel


@dataclass(frozen=True)
class Comparison:
    """Two ways to one state.

    Attributes:
        case: Which ways, in words.
        state: Largest difference of any cached number, relative to the largest in its array; infinite where shapes
            differ.
        logits: Largest difference of a row of logits behind it, relative to the row.
        same_argmax: Whether every row has one argmax.
    """

    case: str
    state: float
    logits: float
    same_argmax: bool


def rollbacks(model: FamilyModel, prefix: Sequence[int], block: Sequence[int]) -> Iterator[Comparison]:
    """Feed a prefix, then the first 1, 2, … rows of a block; keep 0, 1, … of them; compare with one token at a time.

    The replay starts from a deep copy of the caches behind the prefix and feeds the kept tokens one by one.
    """
    target = model.model.backend.target_model
    start = target.new_cache()
    if prefix:
        start.prefill(target.model, prefix)
    replayed = [_copied(start, target)]
    for token in block:
        replayed.append(_copied(replayed[-1], target))
        mx.eval(replayed[-1].feed(target.model, _row(token)))
    due = [_next_row(cache, target) for cache in replayed]
    for rows in range(1, len(block) + 1):
        fed = _copied(start, target)
        mx.eval(fed.feed(target.model, mx.array(list(block[:rows]), dtype=mx.uint32)))
        for kept in range(rows + 1):
            cut = _copied(fed, target)
            cut.rollback(len(prefix) + kept)
            state = _state_apart(cut, replayed[kept])
            logits, same = _rows_apart(_next_row(cut, target), due[kept])
            yield Comparison(f"{kept} of {rows} rows kept behind {len(prefix)} tokens", state, logits, same)


def chunked(model: FamilyModel, tokens: Sequence[int], chunks: Sequence[int]) -> Iterator[Comparison]:
    """Logits and caches of some tokens fed in chunks of each size, against the tokens fed whole."""
    target = model.model.backend.target_model
    whole, due = _fed(target, tokens, len(tokens))
    for size in chunks:
        cache, found = _fed(target, tokens, size)
        logits, same = _rows_apart(found, due)
        yield Comparison(f"{len(tokens)} tokens in chunks of {size}", _state_apart(cache, whole), logits, same)


def _fed(target: FittedModel, tokens: Sequence[int], size: int) -> tuple[SequenceCache, NDArray[np.float32]]:
    cache, rows = target.new_cache(), []
    for start in range(0, len(tokens), size):
        rows.append(cache.feed(target.model, mx.array(list(tokens[start : start + size]), dtype=mx.uint32)))
        mx.eval(rows[-1])
    return cache, _numbers(mx.concatenate(rows))


def _next_row(cache: SequenceCache, target: FittedModel) -> NDArray[np.float32]:
    """Logits of one more token, fed to a copy, shape (1, vocabulary)."""
    return _numbers(_copied(cache, target).feed(target.model, _row(1)))


def _state_apart(cache: SequenceCache, due: SequenceCache) -> float:
    if cache.length != due.length:
        return float("inf")
    found, expected = held_in(cache.layers), held_in(due.layers)
    if [array.shape for array in found] != [array.shape for array in expected]:
        return float("inf")
    pairs = zip(found, expected, strict=True)
    return max((_apart(mine, other) for mine, other in pairs if mine.size), default=0.0)


def held_in(caches: Iterable[Any]) -> list[NDArray[np.float32]]:
    """What a later step can read of layers' caches: rows up to their length or of their window, or whole states."""
    found: list[NDArray[np.float32]] = []
    for part in (part for layer in caches for part in getattr(layer, "caches", [layer])):
        if isinstance(part, WindowCache):
            rows: Sequence[mx.array] = part.state if part.offset else ()
        elif hasattr(part, "keys"):
            rows = [each[..., : part.offset, :] for each in (part.keys, part.values)] if part.offset else ()
        else:
            rows = [array for array in part.cache if array is not None]
        found += map(_numbers, rows)
    return found


def _apart(found: NDArray[np.float32], due: NDArray[np.float32]) -> float:
    return float(np.abs(found - due).max() / max(1e-6, float(np.abs(due).max())))


def _rows_apart(found: NDArray[np.float32], due: NDArray[np.float32]) -> tuple[float, bool]:
    errors = np.linalg.norm(found - due, axis=1) / np.linalg.norm(due, axis=1)
    return float(errors.max()), bool((found.argmax(1) == due.argmax(1)).all())


def _copied(cache: SequenceCache, target: FittedModel) -> SequenceCache:
    """A deep copy of all that a sequence holds; the model's own modules stay shared."""
    shared: dict[int, Any] = {id(target.recurrences): target.recurrences}
    return deepcopy(cache, shared)


def _row(token: int) -> mx.array:
    return mx.array([token], dtype=mx.uint32)


def _numbers(array: mx.array) -> NDArray[np.float32]:
    return np.array(array.astype(mx.float32))
