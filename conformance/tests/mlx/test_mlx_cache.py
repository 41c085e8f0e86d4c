"""Caches: rollback is the cache of the tokens that remain, padded attention is exact attention, nothing is guessed."""

from __future__ import annotations

from typing import cast

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import mamba
from numpy.typing import NDArray

from eredu.contract.errors import CapabilityError
from eredu.mlx.adapter import LanguageModel, load_directory
from eredu.mlx.caches.full import RollbackCache
from eredu.mlx.caches.sequence import SequenceCache
from eredu_conformance.harness.tiny_models import TinyDecoder

DECODERS = [
    TinyDecoder(),
    TinyDecoder(model_type="qwen3", tied=True, kv_heads=4, seed=3),
    TinyDecoder(bias=True, kv_heads=1, seed=4),
]
MAMBA = {
    "model_type": "mamba", "vocab_size": 48, "hidden_size": 16, "intermediate_size": 32, "state_size": 4,
    "num_hidden_layers": 1, "conv_kernel": 4, "use_bias": False, "use_conv_bias": True, "time_step_rank": 2,
}  # fmt: skip
IDS = ["llama", "qwen3", "llama-bias"]


@pytest.fixture(scope="module", params=range(3), ids=IDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    decoder = DECODERS[request.param]
    return load_directory(decoder.write(tmp_path_factory.mktemp(IDS[request.param])))[0]


def tokens(count: int, seed: int = 0) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, 48, size=count)]


def feed(cache: SequenceCache, model: LanguageModel, ids: list[int]) -> NDArray[np.float32]:
    return np.array(cache.feed(model, mx.array(ids, dtype=mx.uint32)))


def held(cache: SequenceCache) -> list[NDArray[np.float32]]:
    """Keys and values of every layer, up to the length."""
    return [np.array(rows[..., : layer.offset, :]) for layer in cache.layers for rows in (layer.keys, layer.values)]


@pytest.mark.parametrize("bucket", [4, 16, 32])
def test_padded_attention_is_exact_attention(model: LanguageModel, bucket: int) -> None:
    """Through prefill padding, growth past several buckets, blocks, single rows and rollback."""
    exact, padded = SequenceCache(model), SequenceCache(model, bucket)
    generator = np.random.default_rng(bucket)
    for number in range(25):
        chunk = tokens(int(generator.integers(1, 12)), seed=number)
        if number % 4 == 0:
            exact.prefill(model, chunk)
            padded.prefill(model, chunk)
        else:
            np.testing.assert_allclose(feed(padded, model, chunk), feed(exact, model, chunk), atol=1e-5, rtol=1e-5)
        if number % 3 == 2:
            back = exact.length - int(generator.integers(0, min(exact.length, 9)))
            exact.rollback(back)
            padded.rollback(back)
        assert exact.length == padded.length == padded.layers[0].offset
    for mine, other in zip(held(padded), held(exact), strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 2, 5, 9])
@pytest.mark.parametrize("start", [0, 3, 7, 8, 13])
def test_padded_shapes_are_whole_buckets_and_agree_with_their_mask(start: int, rows: int) -> None:
    cache = RollbackCache(8)
    block = mx.ones((1, 2, 1, 4))
    for _ in range(start):
        cache.update_and_fetch(block, block)
    mask = cache.make_mask(rows)
    keys, values = cache.update_and_fetch(mx.ones((1, 2, rows, 4)), mx.ones((1, 2, rows, 4)))
    if rows == 1:
        assert mask is None
        assert keys.shape[2] == start + 1
        return
    assert isinstance(mask, mx.array)
    assert mask.shape == (rows, keys.shape[2])
    assert keys.shape == values.shape
    assert keys.shape[2] % 8 == 0
    visible = mask if mask.dtype == mx.bool_ else mask == 0
    assert visible.sum(axis=1).tolist() == [start + row + 1 for row in range(rows)]


def test_prefill_padding_meets_few_shapes(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    original = RollbackCache.update_and_fetch

    def spy(self: RollbackCache, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        result = original(self, keys, values)
        seen.add((keys.shape[2], result[0].shape[2]))
        return result

    monkeypatch.setattr(RollbackCache, "update_and_fetch", spy)
    for length in range(1, 60):
        SequenceCache(model, 64).prefill(model, tokens(length))
    assert seen <= {(1, 1), (2, 64), (4, 64), (8, 64), (16, 64), (32, 64), (64, 64)}


def test_capacity_stays_when_length_shrinks(model: LanguageModel) -> None:
    cache = SequenceCache(model)
    cache.prefill(model, tokens(300))
    before = cache.layers[0].keys.shape
    cache.rollback(2)
    assert cache.layers[0].keys.shape == before
    feed(cache, model, tokens(3))
    assert cache.layers[0].keys.shape == before
    assert cache.length == 5


@pytest.mark.parametrize("length", [-1, 6, 100])
def test_rollback_outside_of_the_cache_is_refused_and_moves_nothing(model: LanguageModel, length: int) -> None:
    cache = SequenceCache(model)
    cache.prefill(model, tokens(5))
    with pytest.raises(CapabilityError, match="rolled back"):
        cache.rollback(length)
    assert [cache.length, *(layer.offset for layer in cache.layers)] == [5, 5, 5]


# rule: capability.no-silent-fallback
def test_caches_that_forget_are_named_and_refused() -> None:
    recurrent = cast(LanguageModel, mamba.Model(mamba.ModelArgs.from_dict(MAMBA)))
    cache = SequenceCache(recurrent)
    assert cache.kinds_without_rollback == {"ArraysCache"}
    feed(cache, recurrent, tokens(4))
    cache.rollback(4)
    with pytest.raises(CapabilityError, match="ArraysCache"):
        cache.rollback(3)


def test_an_empty_cache_has_nothing_to_evaluate(model: LanguageModel) -> None:
    cache = SequenceCache(model)
    mx.eval(*cache.arrays())
    assert cache.length == 0
    cache.rollback(0)
