"""bfloat16 and fp8 directories: what eredu reads from them is what was rounded, in target and head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from eredu.engine.checkpoint import LoadedCheckpoint, load_checkpoint
from eredu.mlx.models import FittedModel
from eredu_conformance.zoo import MEMBERS, Parts, Precision, rounded, zoo_member

PROMPT = mx.array([(5 * i * i + i + 2) % 64 for i in range(30)], dtype=mx.uint32)
HALF = ("llama", "qwen3.5-moe", "nemotron-h", "deepseek-v3", "ernie-4.5", "step-3.5")
"""Members that are read in bfloat16 in every run."""
CASES = [
    *(
        (name, Precision.BFLOAT16)
        if name in HALF
        else pytest.param(name, Precision.BFLOAT16, marks=pytest.mark.nightly)
        for name in MEMBERS
    ),
    *((name, Precision.FP8) for name in MEMBERS if zoo_member(name).fp8 is not None),
]


def _logits(checkpoint: LoadedCheckpoint) -> list[np.ndarray[Any, Any]]:
    """Of the target, and of its first head teacher-forced behind it."""
    target = FittedModel(checkpoint.model, checkpoint.vocabulary_size, 512, recurrences=checkpoint.recurrences)
    logits, record = target.new_cache().feed_recorded(checkpoint.model, PROMPT)
    found = [np.array(logits)]
    if checkpoint.heads is not None:
        heads: Any = checkpoint.heads
        hidden = heads.hidden(record)[:-1]
        found.append(np.array(heads.logits(0, heads.step(0, hidden, PROMPT[1:], heads.new_caches()[0]))))
    return found


@pytest.mark.parametrize(("name", "precision"), CASES)
def test_a_directory_holds_what_was_rounded(name: str, precision: Precision, tmp_path: Path) -> None:
    member = zoo_member(name)
    stored = member.write(tmp_path / "stored", parts=Parts.SHARDED, precision=precision)
    found = _logits(load_checkpoint(stored, tokenizer=None, dtype="float32"))
    due = _logits(load_checkpoint(member.rounded(precision).write(tmp_path / "due"), tokenizer=None))
    exact = _logits(load_checkpoint(member.write(tmp_path / "exact"), tokenizer=None))
    assert len(found) == len(due) == 1 + bool(member.heads)
    for mine, right, other in zip(found, due, exact, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-4, atol=1e-4 * np.abs(right).max())
        assert not np.array_equal(mine, other)


def test_bfloat16_keeps_eight_bits_and_rounds_to_even() -> None:
    values = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-9, -2.5, 0.0], dtype=np.float32)
    found = rounded({"x": values}, Precision.BFLOAT16)["x"]
    np.testing.assert_array_equal(found, np.array([1.0, 1.0, 1 + 2**-6, 1.0, -2.5, 0.0], dtype=np.float32))


def test_fp8_is_near_and_reaches_its_largest() -> None:
    weight = np.asarray(np.random.default_rng(1).standard_normal((200, 130)), dtype=np.float32)
    found = rounded({"w.weight": weight}, Precision.FP8)["w.weight"]
    assert np.abs(found - weight).max() < 0.07 * np.abs(weight).max()
    assert np.corrcoef(found.ravel(), weight.ravel())[0, 1] > 0.999
