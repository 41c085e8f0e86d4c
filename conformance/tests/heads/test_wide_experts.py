"""Mixtures of experts in half precision on the CPU: float32 rounded, and the tokens of plain decoding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from eredu.contract.options import GenerationOptions, SamplingOptions
from eredu.engine.checkpoint import LoadedCheckpoint, load_checkpoint
from eredu.engine.mlx_backend import MlxBackend
from eredu.families.mlx_lm_patches import patch_layers
from eredu.loaded import LoadedModel
from eredu.mlx.caches.sequence import SequenceCache
from eredu.mlx.placement import Placement
from eredu.prepared import PreparedRequest
from eredu_conformance.zoo import zoo_member

FAMILIES = ["deepseek-v3", "nemotron-h", "qwen3.5-moe"]
TOKENS = [int(token) for token in np.random.default_rng(6).integers(0, 64, size=24)]


@pytest.fixture(scope="module", params=FAMILIES)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return zoo_member(request.param).write(tmp_path_factory.mktemp("zoo"))


def logits(checkpoint: LoadedCheckpoint) -> Any:
    cache = SequenceCache(checkpoint.model, recurrences=checkpoint.recurrences)
    return cache.feed(checkpoint.model, mx.array(TOKENS, dtype=mx.uint32))


def test_half_precision_is_float32_rounded(directory: Path) -> None:
    half, single = (load_checkpoint(directory, tokenizer=None, dtype=dtype) for dtype in ("bfloat16", "float32"))
    ours, theirs = logits(half), np.array(logits(single))
    assert ours.dtype == mx.bfloat16, "activations must stay what they were"
    assert np.median(np.abs(np.array(ours.astype(mx.float32)) - theirs)) < 0.25, "the scale of the logits is 2"


def test_widening_twice_widens_once(directory: Path) -> None:
    checkpoint = load_checkpoint(directory, tokenizer=None, dtype="bfloat16")
    before = logits(checkpoint)
    model: Any = checkpoint.model
    patch_layers(model)
    assert mx.array_equal(logits(checkpoint), before).item()


# rule: verify.greedy-argmax, rollback.exact-state
def test_half_precision_decodes_the_plain_tokens(directory: Path) -> None:
    model = LoadedModel(MlxBackend(load_checkpoint(directory, tokenizer=None, dtype="bfloat16"), Placement.choose()))
    options = GenerationOptions(
        sampling=SamplingOptions(temperature=0.0), max_tokens=24, max_proposals=1, eos_ids=frozenset()
    )
    request = PreparedRequest(prompt=tuple(TOKENS), options=options)
    plain = model.generate_prepared_chat([request]).results[0]
    assert model.generate_prepared_chat_mtp(request, None).tokens == plain.tokens
