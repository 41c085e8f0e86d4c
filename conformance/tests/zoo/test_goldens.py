"""eredu's loading and forward against golden logits that Transformers made from the same directories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from eredu.engine.checkpoint import LoadedCheckpoint, load_checkpoint
from eredu.engine.load import load_target
from eredu.mlx.models import FittedModel
from eredu_conformance.goldens import GOLDENS, PROMPT, ROWS, golden_named, head_golden_name
from eredu_conformance.zoo import MEMBERS, Conversion, Parts, write_converted, zoo_edges, zoo_member

RELATIVE = 1e-4
FEEDS = {"whole": [len(PROMPT)], "chunks": [5, 1, 16, 3, 23], "steps": [1] * len(PROMPT)}
FED = [
    pytest.param(name, feed, marks=[] if feed == "chunks" else pytest.mark.nightly)
    for name in GOLDENS
    for feed in (FEEDS if name in MEMBERS else ["chunks"])
]
"""Members in every way. An edge is a matter of the config, and chunks hold blocks, single rows and later positions."""
HEADS_FED = [
    pytest.param(name, feed, after_norms, marks=[] if feed == "chunks" else pytest.mark.nightly)
    for name, feed in (case.values for case in FED)
    if zoo_member(name).heads
    for after_norms in ([True] if feed != "chunks" else [True, False])
]
"""What is read before the norms differs in the rows alone that go in, so that one way of feeding shows it."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], LoadedCheckpoint]:
    """Members as eredu loads them from their published directories, sharded for every other one."""

    @cache
    def one(name: str) -> LoadedCheckpoint:
        parts = Parts.SHARDED if len(name) % 2 else Parts.ONE
        return load_target(zoo_member(name).write(tmp_path_factory.mktemp("zoo") / "it", parts=parts)).backend.target

    return one


def _close(found: mx.array, due: np.ndarray[Any, Any]) -> None:
    """Every row's error is small against the row, and the row's order at the top is the golden's."""
    rows = np.array(found.astype(mx.float32))[[row for row in ROWS if row < found.shape[0]]]
    assert rows.shape == due.shape
    errors = np.linalg.norm(rows - due, axis=1) / np.linalg.norm(due, axis=1)
    assert errors.max() < RELATIVE, f"relative errors by row: {dict(zip(ROWS, errors.round(6), strict=False))}"
    np.testing.assert_array_equal(rows.argmax(1), due.argmax(1))


def _target(checkpoint: LoadedCheckpoint) -> FittedModel:
    return FittedModel(
        checkpoint.model, checkpoint.vocabulary_size, checkpoint.context, recurrences=checkpoint.recurrences
    )


def test_every_member_and_every_edge_has_a_golden() -> None:
    assert set(GOLDENS) == {*MEMBERS, *zoo_edges()}


@pytest.mark.parametrize(("name", "feed"), FED)
def test_logits_are_those_of_transformers(name: str, feed: str, loaded: Callable[[str], LoadedCheckpoint]) -> None:
    target = _target(loaded(name))
    cache, rows, start = target.new_cache(), [], 0
    for count in FEEDS[feed]:
        rows.append(cache.feed(target.model, mx.array(PROMPT[start : start + count], dtype=mx.uint32)))
        start += count
    _close(mx.concatenate(rows), golden_named(name).logits)


@pytest.mark.parametrize(("name", "feed", "after_norms"), HEADS_FED)
def test_head_logits_are_those_of_transformers(
    name: str, feed: str, after_norms: bool, loaded: Callable[[str], LoadedCheckpoint]
) -> None:
    checkpoint, golden = loaded(name), golden_named(name)
    assert checkpoint.heads is not None
    wiring = replace(checkpoint.heads.wiring, hidden_after_norm=after_norms, chain_after_norm=after_norms)
    heads: Any = replace(checkpoint.heads, wiring=wiring)
    _, record = _target(checkpoint).new_cache().feed_recorded(checkpoint.model, mx.array(PROMPT, dtype=mx.uint32))
    hidden = heads.hidden(record)
    caches = heads.new_caches()
    assert len(caches) == zoo_member(name).heads
    for stage, held in enumerate(caches):
        tokens = mx.array(PROMPT[1 + stage :], dtype=mx.uint32)
        rows, start = [], 0
        for count in FEEDS[feed]:
            part = slice(start, min(start + count, tokens.shape[0]))
            if part.start < part.stop:
                rows.append(heads.step(stage, hidden[part], tokens[part], held))
            start += count
        hidden = mx.concatenate(rows)
        _close(heads.logits(stage, hidden), golden.heads[head_golden_name(stage, after_norms=after_norms)])


@pytest.mark.parametrize("name", MEMBERS)
def test_a_conversion_in_shards_has_the_golden_logits(name: str, tmp_path: Path) -> None:
    """The target's: that heads are the published ones in every layout, bit for bit, is what `test_head_files` shows."""
    place = write_converted(zoo_member(name), tmp_path, Conversion(), parts=Parts.SHARDED)
    target = _target(load_checkpoint(place, tokenizer=None))
    _close(target.new_cache().feed(target.model, mx.array(PROMPT, dtype=mx.uint32)), golden_named(name).logits)


def test_a_golden_knows_the_member_that_it_is_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    member = zoo_member("llama")
    name = "model.layers.1.mlp.up_proj.weight"
    other = replace(member, body={**member.body, name: member.body[name] * np.float32(1.0001)})
    monkeypatch.setattr("eredu_conformance.goldens.golden.zoo_member", lambda _: other)
    with pytest.raises(ValueError, match="make it again"):
        golden_named("llama")
    monkeypatch.undo()
    assert {"torch", "transformers"} == set(golden_named("llama").versions)
