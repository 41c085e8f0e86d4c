"""Every cache rolls back to exactly what the shorter history gives, and no two mistakes look alike to its model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eredu_reference import CacheError
from eredu_reference.caches import CacheRow, FullCache, PooledCache, RecurrentCache, WindowCache
from eredu_reference.models import PooledModel, RunningSumModel, TableModel, WindowModel, feed, random_rows, replay

MAKERS = {
    "full": FullCache,
    "window": lambda: WindowCache(4),
    "recurrent": lambda: RecurrentCache(97, 2),
    "pooled": lambda: PooledCache(2),
    "pooled-3": lambda: PooledCache(3),
}


def filled(make: Any, count: Any) -> Any:
    cache = make()
    for position in range(count):
        cache.append(CacheRow((3 * position + position // 4) % 7, position))
    return cache


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("length", range(9))
@pytest.mark.parametrize("more", range(6))
def test_rollback_is_what_the_shorter_history_gives(name: Any, length: Any, more: Any) -> None:
    make = MAKERS[name]
    cache = filled(make, length + more)
    cache.rollback(length)
    assert (len(cache), cache.content()) == (length, filled(make, length).content())


@pytest.mark.parametrize("name", MAKERS)
def test_settled_cache_still_rolls_back_to_the_settled_length(name: Any) -> None:
    make = MAKERS[name]
    for settled in range(10):
        for length in range(settled, 14):
            cache = filled(make, 13)
            cache.settle(settled)
            cache.rollback(min(length, 13))
            assert cache.content() == filled(make, min(length, 13)).content()


@pytest.mark.parametrize("name", ["window", "recurrent", "pooled"])
def test_rollback_below_the_settlement_is_refused(name: Any) -> None:
    cache = filled(MAKERS[name], 12)
    cache.settle(12)
    with pytest.raises(CacheError):
        cache.rollback(7)


@pytest.mark.parametrize("name", MAKERS)
def test_a_copy_is_its_own(name: Any) -> None:
    cache = filled(MAKERS[name], 7)
    before, other = cache.content(), cache.copy()
    other.append(CacheRow(5, 7))
    other.rollback(4)
    assert cache.content() == before
    assert len(cache) == 7


@pytest.mark.parametrize(
    "model",
    [
        TableModel.random(5, order=2, seed=1),
        RunningSumModel(tuple(random_rows(64, 5, seed=2))),
        WindowModel(tuple(random_rows(64, 5, seed=3))),
        PooledModel(tuple(random_rows(64, 5, seed=4))),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_wrong_last_row_changes_the_next_row(model: Any) -> None:
    right, rows = replay(model, (1, 2, 3, 4, 0, 2))
    wrong, others = replay(model, (1, 2, 3, 4, 0, 3))
    assert right.content() != wrong.content()
    assert not np.array_equal(rows[-1].logits, others[-1].logits)


def test_a_model_refuses_what_it_cannot_take() -> None:
    model = TableModel.random(3, order=1, seed=1, context=2)
    cache, _ = replay(model, (0, 1))
    with pytest.raises(CacheError, match="context"):
        feed(model, cache, 0, 2)
    with pytest.raises(ValueError, match="id 3"):
        replay(model, (3,))
