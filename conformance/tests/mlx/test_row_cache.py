"""A cache that attends for itself gives the model's own attention: the kernel is stood in for by its contract."""

from __future__ import annotations

import mlx.core as mx
import pytest

from eredu.mlx.adapter import LanguageModel, build_llama, evaluate_model, patch_attention
from eredu.mlx.caches import row as row_cache
from eredu.mlx.caches.batch import BatchCache
from eredu.mlx.caches.full import RollbackCache
from eredu.mlx.caches.row import RowCache
from eredu.mlx.caches.sequence import SequenceCache

CONFIG = {
    "model_type": "llama",
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}


def by_contract(
    queries: mx.array,
    new_keys: mx.array,
    new_values: mx.array,
    keys: mx.array,
    values: mx.array,
    past: int,
    scale: float,
) -> mx.array:
    """What `append_and_attend` promises, without its kernel; the buffers change in place here too."""
    end = past + new_keys.shape[2]
    keys[..., past:end, :] = new_keys
    values[..., past:end, :] = new_values
    seen_keys, seen_values = keys[..., :end, :], values[..., :end, :]
    return mx.fast.scaled_dot_product_attention(queries, seen_keys, seen_values, scale=scale, mask="causal")


def patched_model() -> LanguageModel:
    model = build_llama(CONFIG)
    evaluate_model(model)
    patch_attention(model)
    return model


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the buffers at each call of the stand-in."""
    seen: list[int] = []

    def attend(*arguments: mx.array) -> mx.array:
        seen.append(arguments[3].shape[2])
        return by_contract(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(row_cache, "append_and_attend", attend)
    return seen


@pytest.mark.parametrize("prompt", [[1], [1, 2, 3], list(range(40))])
def test_logits_are_those_of_the_plain_cache(prompt: list[int], calls: list[int]) -> None:
    mx.random.seed(3)
    model = patched_model()
    plain = SequenceCache(model)
    rows = SequenceCache(model, 8, attention_cache=RowCache)
    for cache in (plain, rows):
        cache.prefill(model, prompt)
    for turn in range(12):
        tokens = mx.array([(turn * 7 + at) % 64 for at in range(1 + turn % 5)], dtype=mx.uint32)
        wanted, found = plain.feed(model, tokens), rows.feed(model, tokens)
        assert mx.allclose(found, wanted, atol=1e-5).item()
        for cache in (plain, rows):
            cache.rollback(cache.length - turn % 3)
    assert plain.length == rows.length
    assert calls
    assert max(calls) >= rows.length


def test_other_caches_keep_the_models_attention(calls: list[int]) -> None:
    model = patched_model()
    cache = SequenceCache(model, 8, attention_cache=RollbackCache)
    cache.prefill(model, [1, 2, 3])
    cache.feed(model, mx.array([4, 5], dtype=mx.uint32))
    assert not calls


@pytest.mark.parametrize("limit", ["MOST_ROWS", "LONGEST"])
def test_many_rows_and_long_caches_go_the_usual_way(
    limit: str, monkeypatch: pytest.MonkeyPatch, calls: list[int]
) -> None:
    monkeypatch.setattr(row_cache, limit, 2)
    model = patched_model()
    cache = SequenceCache(model, 8, attention_cache=RowCache)
    cache.prefill(model, [1, 2, 3])
    cache.feed(model, mx.array([4, 5, 6], dtype=mx.uint32))
    assert not calls


def test_several_members_go_the_usual_way(calls: list[int]) -> None:
    mx.random.seed(4)
    model = patched_model()
    batch, alone = BatchCache(model, 8, members=2, attention_cache=RowCache), SequenceCache(model)
    for start in (0, 3, 4):
        rows = [[start + at, start + at + 7] for at in range(2)]
        logits, _ = batch.feed(model, mx.array(rows, dtype=mx.uint32))
        assert mx.allclose(logits[1], alone.feed(model, mx.array(rows[1], dtype=mx.uint32)), atol=1e-5).item()
    assert not calls
