"""Golden logits from every layout: converted, and with the head in a directory of its own, published or converted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from eredu.engine.checkpoint import LoadedCheckpoint, load_checkpoint
from eredu.mlx.caches.sequence import SequenceCache
from eredu_conformance.goldens import PROMPT, ROWS, golden_named, head_golden_name
from eredu_conformance.zoo import (
    MEMBERS,
    Conversion,
    HeadPlace,
    Parts,
    ZooMember,
    write_converted,
    write_head,
    zoo_member,
)
from eredu_conformance.zoo.writing import write_directory

WITH_HEADS = tuple(name for name in MEMBERS if zoo_member(name).heads)
TOKENS = mx.array(PROMPT, dtype=mx.uint32)

Loads = Callable[[ZooMember, Path], LoadedCheckpoint]


def _converted(member: ZooMember, place: Path) -> LoadedCheckpoint:
    return load_checkpoint(write_converted(member, place, Conversion()), tokenizer=None)


def _converted_in_shards(member: ZooMember, place: Path) -> LoadedCheckpoint:
    return load_checkpoint(write_converted(member, place, Conversion(), parts=Parts.SHARDED), tokenizer=None)


def _published_head_beside(member: ZooMember, place: Path) -> LoadedCheckpoint:
    target = write_converted(member, place / "target", Conversion(head=HeadPlace.DROPPED))
    return load_checkpoint(target, tokenizer=None, head=write_head(member, place / "head", layout="pt"))


def _converted_head_beside(member: ZooMember, place: Path) -> LoadedCheckpoint:
    target = write_directory(place / "target", dict(member.config), member.body)
    return load_checkpoint(target, tokenizer=None, head=write_head(member, place / "head"))


def _close(found: mx.array, due: np.ndarray[Any, Any]) -> None:
    rows = np.array(found)[list(ROWS)]
    assert (np.linalg.norm(rows - due, axis=1) / np.linalg.norm(due, axis=1)).max() < 1e-4


def _judge(checkpoint: LoadedCheckpoint, name: str) -> None:
    golden = golden_named(name)
    cache = SequenceCache(checkpoint.model, recurrences=checkpoint.recurrences)
    logits, record = cache.feed_recorded(checkpoint.model, TOKENS)
    _close(logits, golden.logits)
    heads: Any = checkpoint.heads
    if zoo_member(name).heads:
        outputs = heads.step(0, heads.hidden(record)[:-1], TOKENS[1:], heads.new_caches()[0])
        _close(heads.logits(0, outputs), golden.heads[head_golden_name(0, after_norms=True)])


@pytest.mark.parametrize("loads", [_converted, _converted_in_shards])
@pytest.mark.parametrize("name", MEMBERS)
def test_a_conversion_has_the_golden_logits(name: str, loads: Loads, tmp_path: Path) -> None:
    _judge(loads(zoo_member(name), tmp_path), name)


@pytest.mark.parametrize("loads", [_published_head_beside, _converted_head_beside])
@pytest.mark.parametrize("name", WITH_HEADS)
def test_a_head_beside_its_target_has_the_golden_logits(name: str, loads: Loads, tmp_path: Path) -> None:
    _judge(loads(zoo_member(name), tmp_path), name)
