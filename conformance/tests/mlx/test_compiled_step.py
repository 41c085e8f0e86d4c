"""Compiled one-token steps against the model itself, across growth of the buffers and rollback."""

from __future__ import annotations

from collections.abc import Iterator

import mlx.core as mx
import pytest

from eredu.mlx.adapter import build_llama, evaluate_model
from eredu.mlx.cache import SequenceCache
from eredu.mlx.compiled_step import CompiledSteps

CONFIG = {
    "model_type": "llama",
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}


@pytest.fixture(autouse=True)
def uncompiled() -> Iterator[None]:
    """The steps are the subject here, and a CPU may have no compiler."""
    mx.disable_compile()
    yield
    mx.enable_compile()


@pytest.mark.parametrize("prompt", [[1], [1, 2, 3]])
def test_steps_are_the_models_own(prompt: list[int]) -> None:
    mx.random.seed(3)
    model = build_llama(CONFIG)
    evaluate_model(model)
    plain, stepped = SequenceCache(model, 8), SequenceCache(model, 8, steps=CompiledSteps(model))
    for cache in (plain, stepped):
        cache.prefill(model, prompt)
    token = mx.array([5], dtype=mx.uint32)
    for turn in range(24):
        wanted, found = plain.feed(model, token), stepped.feed(model, token)
        assert mx.allclose(found, wanted, atol=1e-5).item()
        token = mx.argmax(wanted, axis=-1)
        if turn % 5 == 4:
            for cache in (plain, stepped):
                cache.rollback(cache.length - 3)
                cache.feed(model, mx.array([7, 9], dtype=mx.uint32))
    assert plain.length == stepped.length > 16


def test_large_buffers_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_llama(CONFIG)
    evaluate_model(model)
    monkeypatch.setattr("eredu.mlx.cache.SMALL", 2 * 2 * 8 * 16 * 4 - 1)
    monkeypatch.setattr(CompiledSteps, "step", None)
    cache = SequenceCache(model, 8, steps=CompiledSteps(model))
    cache.prefill(model, [1, 2, 3])
    assert cache.feed(model, mx.array([5], dtype=mx.uint32)).shape == (1, 64)
