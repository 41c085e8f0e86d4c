"""Sliding windows: exact past the window, in blocks as in rows, with every suffix taken back, and bounded memory."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_map_with_path
from mlx_lm.models.cache import make_prompt_cache
from numpy.typing import NDArray

from eredu.contract.errors import CapabilityError
from eredu.mlx.adapter import LanguageModel
from eredu.mlx.caches.sequence import SequenceCache
from eredu.mlx.caches.window import KEPT_BEHIND, WindowCache
from eredu_conformance.harness.family_state import held_in

WINDOW, LENGTH = 24, 84
COMMON = {
    "vocab_size": 48, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "rms_norm_eps": 1e-5, "sliding_window": WINDOW, "max_position_embeddings": 512, "rope_theta": 1e4,
}  # fmt: skip
BUILT: dict[str, dict[str, Any]] = {
    "llama": {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]},
    "gemma3_text": {"num_hidden_layers": 3, "sliding_window_pattern": 3, "query_pre_attn_scalar": 8},
    "gpt_oss": {
        "num_hidden_layers": 2, "num_local_experts": 4, "num_experts_per_tok": 2, "layer_types": None,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    },
    "gemma4_text": {
        "num_hidden_layers": 5, "num_kv_shared_layers": 2, "sliding_window_pattern": 2, "global_head_dim": 16,
        "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 48,
    },
    "muse_glimmer": {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]},
}  # fmt: skip
TOKENS = [int(token) for token in np.random.default_rng(1).integers(0, 48, size=LENGTH)]


@pytest.fixture(scope="module", params=BUILT)
def model(request: pytest.FixtureRequest) -> LanguageModel:
    family = request.param
    module = import_module(f"mlx_lm.models.{family}")
    mx.random.seed(3)
    made: Any = module.Model(module.ModelArgs.from_dict({**COMMON, **BUILT[family], "model_type": family}))
    lively = tree_map_with_path(lambda _, array: array * 3 if array.ndim > 1 else array, made.parameters())
    made.update(lively)
    mx.eval(made.parameters())
    return cast(LanguageModel, made)


def feed(cache: SequenceCache, model: LanguageModel, ids: list[int]) -> NDArray[np.float32]:
    return np.array(cache.feed(model, mx.array(ids, dtype=mx.uint32)))


def windows(cache: SequenceCache) -> list[WindowCache]:
    return [layer for layer in cache.layers if isinstance(layer, WindowCache)]


def test_single_rows_are_those_of_mlx_lms_ring(model: LanguageModel) -> None:
    ring, cache = make_prompt_cache(model), SequenceCache(model)
    assert windows(cache)
    assert not cache.kinds_without_rollback
    for token in TOKENS:
        due = np.array(model(mx.array([[token]]), cache=ring))[0]
        np.testing.assert_allclose(feed(cache, model, [token]), due, atol=2e-5 * np.abs(due).max())


@pytest.mark.parametrize("rows", [5, 17])
def test_a_block_is_its_rows_one_by_one(model: LanguageModel, rows: int) -> None:
    """Bit for bit on the CPU, before the window and past it."""
    single, block = SequenceCache(model), SequenceCache(model)
    due = np.concatenate([feed(single, model, [token]) for token in TOKENS])
    for start in range(0, LENGTH - rows, rows):
        found = feed(block, model, TOKENS[start : start + rows])
        if mx.default_device().type == mx.DeviceType.cpu:
            np.testing.assert_array_equal(found, due[start : start + rows])
        else:
            np.testing.assert_allclose(found, due[start : start + rows], atol=1e-3 * np.abs(due).max())


@pytest.mark.parametrize("length", [22, 40, 63])
def test_whatever_is_rejected_is_as_if_it_had_never_been_fed(model: LanguageModel, length: int) -> None:
    due = SequenceCache(model)
    due.prefill(model, TOKENS[:length])
    cache = due.clone()
    for accepted in (1, 2, 4, 7):
        feed(cache, model, [1 + token % 47 for token in range(7)])
        cache.rollback(length)
        feed(cache, model, TOKENS[length : length + accepted])
        due.rollback(length)
        feed(due, model, TOKENS[length : length + accepted])
        for mine, other in zip(held_in(cache.layers), held_in(due.layers), strict=True):
            np.testing.assert_array_equal(mine, other)
        cache.rollback(length)


@pytest.mark.parametrize("bucket", [16])
def test_padding_changes_nothing(model: LanguageModel, bucket: int) -> None:
    exact, padded = SequenceCache(model), SequenceCache(model, bucket)
    generator = np.random.default_rng(bucket)
    for number in range(14):
        chunk = [int(token) for token in generator.integers(0, 48, size=generator.integers(1, 30))]
        if number % 5 == 0:
            exact.prefill(model, chunk)
            padded.prefill(model, chunk)
        else:
            due = feed(exact, model, chunk)
            np.testing.assert_allclose(feed(padded, model, chunk), due, atol=2e-5 * np.abs(due).max())
        if number % 3 == 2:
            back = exact.length - int(generator.integers(0, 9))
            exact.rollback(back)
            padded.rollback(back)


def test_memory_is_bounded_and_a_prefix_out_of_reach_is_refused() -> None:
    cache, row = WindowCache(WINDOW), mx.zeros((1, 1, 1, 4))
    most = 0
    for _ in range(2000):
        cache.update_and_fetch(row, row)
        most = max(most, cache.nbytes // (2 * row.nbytes))
    assert most <= WINDOW + 2 * KEPT_BEHIND + 1
    cache.rollback(2000 - KEPT_BEHIND)
    assert cache.offset == 2000 - KEPT_BEHIND
    with pytest.raises(CapabilityError, match=r"cannot be rolled back to 40: it holds those from \d+ on"):
        cache.rollback(40)
    assert cache.offset == 2000 - KEPT_BEHIND
