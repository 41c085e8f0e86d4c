"""Layers with two formulas: blocks against single rows, chunks against the whole, rollback against replay."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from eredu.engine.checkpoint import load_checkpoint
from eredu.families.mlx_lm_patches import BLOCK_ROWS, NOTED_ROWS
from eredu.families.recurrence import recurrences_of
from eredu.mlx.adapter import LanguageModel
from eredu.mlx.caches.sequence import SequenceCache
from eredu_conformance.harness.family_state import held_in
from eredu_conformance.zoo import MEMBERS, zoo_member

PROMPT = 20
CHUNK_TOLERANCE = 5e-5
"""Logits of one prefill in several chunks, against one: the stated numerics of these families in float32."""


OTHERS = ("glm-4.7-flash", "glm-5", "k-exaone", "mimo", "qwen3", "qwen3.5-moe")
"""Members whose layers are another's in all but their numbers: the nightly run has them."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.nightly) if name in OTHERS else name for name in MEMBERS],
)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    directory = zoo_member(request.param).write(tmp_path_factory.mktemp("zoo"))
    return load_checkpoint(directory, tokenizer=None, with_heads=False).model


def tokens(count: int, seed: int = 0) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, 64, size=count)]


def new_cache(model: LanguageModel, bucket: int | None = None) -> SequenceCache:
    return SequenceCache(model, bucket, recurrences_of(model))


def feed(cache: SequenceCache, model: LanguageModel, ids: Sequence[int]) -> NDArray[np.float32]:
    return np.array(cache.feed(model, mx.array(list(ids), dtype=mx.uint32)))


def feed_in(model: LanguageModel, chunks: Sequence[Sequence[int]]) -> tuple[NDArray[np.float32], SequenceCache]:
    cache = new_cache(model)
    return np.concatenate([feed(cache, model, chunk) for chunk in chunks]), cache


def state(cache: SequenceCache) -> list[NDArray[np.float32]]:
    """Everything that a later step can read."""
    return held_in(cache.layers)


def assert_same(ours: Sequence[NDArray[np.float32]], theirs: Sequence[NDArray[np.float32]]) -> None:
    """Bit for bit on the stock CPU wheel, which computes each row by itself; to 3e-4 elsewhere."""
    for mine, other in zip(ours, theirs, strict=True):
        if mx.default_device().type == mx.DeviceType.cpu:
            assert mine.tobytes() == other.tobytes()
        else:
            np.testing.assert_allclose(mine, other, rtol=3e-4, atol=3e-4)


@pytest.mark.parametrize("rows", [2, pytest.param(5, marks=pytest.mark.nightly), BLOCK_ROWS])
def test_a_block_is_its_rows_one_by_one(model: LanguageModel, rows: int) -> None:
    """Before and behind every boundary of these families: the convolution's kernel, the indexer's choice."""
    prompt, text = tokens(PROMPT), tokens(80, seed=1)
    one_by_one, single = feed_in(model, [prompt, *([token] for token in text)])
    in_blocks, blocks = feed_in(model, [prompt, *(text[start : start + rows] for start in range(0, 80, rows))])
    assert_same([in_blocks], [one_by_one])
    assert_same(state(blocks), state(single))


# rule: rollback.exact-state
@pytest.mark.parametrize("length", [1, pytest.param(4, marks=pytest.mark.nightly), 22])
@pytest.mark.parametrize("accepted", [0, pytest.param(1, marks=pytest.mark.nightly), 5])
def test_rollback_is_a_deep_copy_and_the_replay_of_one_token_after_another(
    model: LanguageModel, length: int, accepted: int
) -> None:
    cache = new_cache(model)
    feed(cache, model, tokens(length))
    replayed = deepcopy(cache)
    block, after = tokens(6, seed=2), tokens(3, seed=3)
    feed(cache, model, block)
    cache.rollback(length + accepted)
    for token in block[:accepted]:
        feed(replayed, model, [token])
    assert_same(state(cache), state(replayed))
    assert_same([feed(cache, model, after)], [np.concatenate([feed(replayed, model, [token]) for token in after])])


# rule: rollback.exact-state
@pytest.mark.parametrize("rows", [NOTED_ROWS, NOTED_ROWS + 1])
def test_states_noted_behind_each_row_are_those_of_the_recurrence_run_again(model: LanguageModel, rows: int) -> None:
    block = tokens(rows, seed=2)
    cache, replayed = new_cache(model), new_cache(model)
    feed(cache, model, tokens(PROMPT))
    feed(cache, model, block)
    cache.rollback(PROMPT + 7)
    feed(replayed, model, tokens(PROMPT))
    for token in block[:7]:
        feed(replayed, model, [token])
    assert_same(state(cache), state(replayed))


# rule: rollback.exact-state
def test_many_rounds_of_rollback_leave_no_trace(model: LanguageModel) -> None:
    generator = np.random.default_rng(8)
    cache, kept = new_cache(model), tokens(5)
    feed(cache, model, kept)
    for number in range(30):
        block = tokens(int(generator.integers(1, 8)), seed=100 + number)
        feed(cache, model, block)
        stay = int(generator.integers(0, len(block) + 1))
        cache.rollback(len(kept) + stay)
        kept = kept + block[:stay]
    plain = new_cache(model)
    feed(plain, model, kept[:5])
    for token in kept[5:]:
        feed(plain, model, [token])
    assert_same(state(cache), state(plain))


@pytest.mark.parametrize(
    "cut", [pytest.param(255, marks=pytest.mark.nightly), pytest.param(256, marks=pytest.mark.nightly), 257]
)
def test_long_prompts_cross_the_boundaries_of_chunked_forms(model: LanguageModel, cut: int) -> None:
    """256 rows: the chunk of mlx-lm's state space, and the step by which its caches grow."""
    text = tokens(270, seed=5)
    whole, _ = feed_in(model, [text])
    parts = [text[:cut], *([token] for token in text[cut : cut + 3]), text[cut + 3 :]]
    chunked, _ = feed_in(model, parts)
    np.testing.assert_allclose(chunked, whole, atol=CHUNK_TOLERANCE, rtol=CHUNK_TOLERANCE)


@pytest.mark.parametrize("bucket", [4, pytest.param(32, marks=pytest.mark.nightly)])
def test_padded_attention_is_exact_attention(model: LanguageModel, bucket: int) -> None:
    exact, padded = new_cache(model), new_cache(model, bucket)
    generator = np.random.default_rng(bucket)
    for number in range(12):
        chunk = tokens(int(generator.integers(1, 12)), seed=number)
        np.testing.assert_allclose(feed(padded, model, chunk), feed(exact, model, chunk), atol=1e-4, rtol=1e-4)
        if number % 3 == 2:
            back = exact.length - int(generator.integers(0, min(len(chunk), 3)))
            exact.rollback(back)
            padded.rollback(back)
