"""Caches of several sequences: each member is what it is alone, and what cannot be held is refused."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from eredu.contract.errors import CapabilityError
from eredu.engine.checkpoint import load_checkpoint
from eredu.mlx.adapter import LanguageModel, load_directory
from eredu.mlx.caches.batch import BatchCache
from eredu.mlx.caches.sequence import SequenceCache
from eredu_conformance.harness.tiny_models import TinyDecoder
from eredu_conformance.zoo import zoo_member

MEMBERS = 3


@pytest.fixture(scope="module", params=["llama", "deepseek-v3", "deepseek-v3.2"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    """Full, latent and indexed attention."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "llama":
        return load_directory(TinyDecoder().write(directory))[0]
    return load_checkpoint(zoo_member(request.param).write(directory), tokenizer=None).model


def rows_of(count: int, seed: int) -> list[list[int]]:
    drawn: list[list[int]] = np.random.default_rng(seed).integers(0, 48, size=(MEMBERS, count)).tolist()
    return drawn


# rule: rollback.exact-length, rollback.exact-state, scheduling.requests-independent
@pytest.mark.parametrize("bucket", [None, 8])
def test_every_member_is_what_it_is_alone(model: LanguageModel, bucket: int | None) -> None:
    batch = BatchCache(model, bucket, members=MEMBERS)
    alone = [SequenceCache(model, bucket) for _ in range(MEMBERS)]
    prompt = rows_of(11, seed=1)
    batch.prefill(model, prompt)
    for cache, row in zip(alone, prompt, strict=True):
        cache.prefill(model, row)
    for turn, (count, kept) in enumerate([(4, 2), (1, 1), (5, 0), (3, 3)]):
        block = rows_of(count, seed=10 + turn)
        logits, _ = batch.feed(model, mx.array(block, dtype=mx.uint32))
        assert logits.shape[:2] == (MEMBERS, count)
        for member, (cache, row) in enumerate(zip(alone, block, strict=True)):
            own = cache.feed(model, mx.array(row, dtype=mx.uint32))
            np.testing.assert_allclose(np.array(logits[member]), np.array(own), atol=5e-5, rtol=5e-5)
            cache.rollback(cache.length - count + kept)
        batch.rollback([cache.length for cache in alone])
        assert batch.lengths == tuple(cache.length for cache in alone)


def test_lengths_that_differ_are_refused(model: LanguageModel) -> None:
    batch = BatchCache(model, members=MEMBERS)
    batch.prefill(model, rows_of(6, seed=2))
    with pytest.raises(CapabilityError, match=r"one length; \[6, 5, 6\]"):
        batch.rollback([6, 5, 6])
    with pytest.raises(CapabilityError, match="given 2 lengths"):
        batch.rollback([5, 5])
    with pytest.raises(CapabilityError, match="given 1 rows"):
        batch.feed(model, mx.array([[1, 2]], dtype=mx.uint32))
    assert batch.lengths == (6, 6, 6)


def test_recurrent_layers_take_one_member(tmp_path: Path) -> None:
    checkpoint = load_checkpoint(zoo_member("qwen3.5").write(tmp_path), tokenizer=None)
    with pytest.raises(CapabilityError, match="not 2"):
        BatchCache(checkpoint.model, recurrences=checkpoint.recurrences, members=2)
    assert BatchCache(checkpoint.model, recurrences=checkpoint.recurrences).lengths == (0,)
