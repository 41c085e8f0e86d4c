"""Heads stage by stage: published equations in float64, chunks, guesses taken back, padding, and whole texts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from eredu.checkpoints.wiring import Wiring
from eredu.engine.checkpoint import LoadedCheckpoint, load_checkpoint
from eredu.families.teacher_forcing import outputs_along
from eredu.mlx.taps import recording
from eredu_conformance.published import DeepSeek, NemotronH
from eredu_conformance.zoo import ZooMember, deepseek_v3, deepseek_v32, nemotron_h

EQUATIONS: dict[str, tuple[ZooMember, type[Any]]] = {
    "deepseek-v3": (deepseek_v3(3), DeepSeek),
    "deepseek-v3.2": (deepseek_v32(), DeepSeek),
    "nemotron-h": (nemotron_h(3), NemotronH),
}
"""Families whose equations are written out here; all others are held to goldens (`conformance/tests/zoo`)."""
TOKENS = [int(token) for token in np.random.default_rng(3).integers(0, 64, size=40)]
IDS = mx.array(TOKENS, dtype=mx.uint32)
TOLERANCE = 1e-4


@pytest.fixture(scope="module", params=EQUATIONS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[LoadedCheckpoint, Any]:
    member, published = EQUATIONS[request.param]
    loaded = load_checkpoint(member.write(tmp_path_factory.mktemp("zoo")), tokenizer=None)
    return loaded, published(member.config, member.tensors)


def hidden_of(checkpoint: LoadedCheckpoint, wiring: Wiring | None = None) -> mx.array:
    """The target's hidden rows along the text, as the heads read them."""
    heads: Any = checkpoint.heads
    with recording() as record:
        mx.eval(checkpoint.model(mx.array([TOKENS])))
    rows: mx.array = (heads if wiring is None else replace(heads, wiring=wiring)).hidden(record)
    return rows


def close(ours: mx.array, theirs: NDArray[np.float64]) -> None:
    np.testing.assert_allclose(np.array(ours), theirs, atol=TOLERANCE * np.abs(theirs).max(), rtol=TOLERANCE)


def test_the_target_is_the_published_model(case: tuple[LoadedCheckpoint, Any]) -> None:
    loaded, published = case
    before, behind, logits = published.target(TOKENS)
    close(loaded.model(mx.array([TOKENS]))[0], logits)
    close(hidden_of(loaded, Wiring()), before)
    close(hidden_of(loaded, Wiring(hidden_after_norm=True)), behind)


@pytest.mark.parametrize("hidden_first", [False, True])
@pytest.mark.parametrize("chain_after_norm", [False, True])
@pytest.mark.parametrize("hidden_after_norm", [False, True])
def test_a_chain_of_stages_is_the_published_one(
    case: tuple[LoadedCheckpoint, Any], hidden_after_norm: bool, chain_after_norm: bool, hidden_first: bool
) -> None:
    loaded, published = case
    wiring = Wiring(hidden_after_norm=hidden_after_norm, chain_after_norm=chain_after_norm, hidden_first=hidden_first)
    heads: Any = loaded.heads
    heads = replace(heads, wiring=wiring)
    theirs = published.target(TOKENS)[int(hidden_after_norm)]
    ours = hidden_of(loaded, wiring)
    for number, cache in enumerate(heads.new_caches()):
        rows = len(TOKENS) - 1 - number
        behind = TOKENS[1 + number :]
        before, after, logits = published.stage(number, theirs[:rows], behind, hidden_first=hidden_first)
        ours = heads.step(number, ours[:rows], mx.array(behind, dtype=mx.uint32), cache)
        theirs = after if chain_after_norm else before
        close(ours, theirs)
        close(heads.logits(number, ours), logits)


@pytest.mark.parametrize("cuts", [[1], [39], [3, 4, 20], [23, 24, 25], list(range(1, 39))], ids=str)
def test_a_text_in_chunks_is_the_whole(checkpoint: LoadedCheckpoint, cuts: list[int]) -> None:
    heads: Any = checkpoint.heads
    hidden, behind = hidden_of(checkpoint)[:-1], IDS[1:]
    for stage, (cache, other) in enumerate(zip(heads.new_caches(), heads.new_caches(), strict=True)):
        whole = heads.step(stage, hidden, behind, cache)
        parts = [
            heads.step(stage, hidden[start:stop], behind[start:stop], other)
            for start, stop in zip([0, *cuts], [*cuts, 39], strict=True)
            if stop > start
        ]
        np.testing.assert_allclose(np.array(mx.concatenate(parts)), np.array(whole), atol=1e-4, rtol=1e-4)


# rule: rollback.exact-state
@pytest.mark.parametrize("kept", [0, 1, 4, 24, 25, 38])
def test_rows_that_were_guesses_leave_no_trace(checkpoint: LoadedCheckpoint, kept: int) -> None:
    heads: Any = checkpoint.heads
    hidden, behind = hidden_of(checkpoint)[:-1], IDS[1:]
    for stage, (cache, fresh) in enumerate(zip(heads.new_caches(), heads.new_caches(), strict=True)):
        for each in (cache, fresh):
            if kept:
                heads.step(stage, hidden[:kept], behind[:kept], each)
        heads.step(stage, hidden[kept:][::-1], behind[kept:][::-1], cache)
        cache.rollback(kept)
        after, expected = (heads.step(stage, hidden[kept:], behind[kept:], each) for each in (cache, fresh))
        np.testing.assert_array_equal(np.array(after), np.array(expected))


@pytest.mark.parametrize("bucket", [4, 16])
def test_padded_caches_change_no_output(checkpoint: LoadedCheckpoint, bucket: int) -> None:
    heads: Any = checkpoint.heads
    hidden, behind = hidden_of(checkpoint)[:-1], IDS[1:]
    for stage, (exact, padded) in enumerate(zip(heads.new_caches(), heads.new_caches(bucket), strict=True)):
        for start, stop in ((0, 5), (5, 6), (6, 20), (20, 23), (23, 39)):
            ours, theirs = (
                heads.step(stage, hidden[start:stop], behind[start:stop], cache) for cache in (padded, exact)
            )
            np.testing.assert_allclose(np.array(ours), np.array(theirs), atol=1e-4, rtol=1e-4)


def test_a_text_at_every_depth_is_drafting_from_every_row(checkpoint: LoadedCheckpoint) -> None:
    heads: Any = checkpoint.heads
    hidden, depth = hidden_of(checkpoint), heads.traits.stages + 2
    along = outputs_along(heads, hidden, IDS, depth)
    for row in (0, 1, 24, 30):
        caches, rows = heads.new_caches(), hidden[: row + 1]
        for index in range(depth):
            stage = heads.traits.stage_of(index)
            iterated = index >= heads.traits.stages
            behind = IDS[row + 1 + index][None] if iterated else IDS[1 + index :][: row + 1]
            rows = heads.step(stage, rows[-1:] if iterated else rows, behind, caches[stage])
            np.testing.assert_allclose(np.array(rows[-1]), np.array(along[index][row]), atol=2e-4, rtol=2e-4)
