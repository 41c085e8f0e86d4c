"""Targets and staged heads of DeepSeek and Nemotron-H against their published equations in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from eredu.checkpoints.wiring import Wiring
from eredu.engine.checkpoint import load_checkpoint
from eredu.families.teacher_forcing import outputs_along
from eredu.mlx.adapter import LanguageModel, load_directory
from eredu.mlx.taps import Recording, recording
from eredu_conformance.published import DeepSeek, NemotronH
from eredu_conformance.zoo import ZooMember, deepseek_v3, deepseek_v32, nemotron_h

MEMBERS: dict[str, tuple[Callable[[], ZooMember], type[Any]]] = {
    "deepseek-v3": (lambda: deepseek_v3(3), DeepSeek),
    "deepseek-v3.2": (deepseek_v32, DeepSeek),
    "nemotron-h": (lambda: nemotron_h(3), NemotronH),
}
TOKENS = [int(token) for token in np.random.default_rng(3).integers(0, 64, size=40)]
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Loaded:
    """Target and heads."""

    model: LanguageModel
    heads: Any

    def record(self) -> Recording:
        """What the taps see of one pass over the tokens."""
        with recording() as record:
            mx.eval(self.model(mx.array([TOKENS])))
        return record

    def logits(self) -> mx.array:
        """Logits of one pass over the tokens, shape (rows, vocabulary)."""
        return self.model(mx.array([TOKENS]))[0]

    def wired(self, wiring: Wiring) -> Any:
        """The heads under another wiring."""
        return replace(self.heads, wiring=wiring)


def load(member: ZooMember, directory: Path) -> Loaded:
    checkpoint = load_checkpoint(member.write(directory), tokenizer=None)
    return Loaded(checkpoint.model, checkpoint.heads)


@pytest.fixture(scope="module", params=list(MEMBERS))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Loaded, Any]:
    make, published = MEMBERS[request.param]
    member = make()
    return load(member, tmp_path_factory.mktemp("zoo")), published(member.config, member.tensors)


def close(ours: mx.array, theirs: NDArray[np.float64]) -> None:
    scale = np.abs(theirs).max()
    np.testing.assert_allclose(np.array(ours), theirs, atol=TOLERANCE * scale, rtol=TOLERANCE)


def test_the_target_is_the_published_model(case: tuple[Loaded, Any]) -> None:
    loaded, published = case
    before, behind, logits = published.target(TOKENS)
    close(loaded.logits(), logits)
    hidden = [
        variant.hidden(loaded.record())
        for variant in (loaded.wired(Wiring()), loaded.wired(Wiring(hidden_after_norm=True)))
    ]
    close(hidden[0], before)
    close(hidden[1], behind)


@pytest.mark.parametrize("hidden_first", [False, True])
@pytest.mark.parametrize("chain_after_norm", [False, True])
@pytest.mark.parametrize("hidden_after_norm", [False, True])
def test_a_chain_of_stages_is_the_published_one(
    case: tuple[Loaded, Any], hidden_after_norm: bool, chain_after_norm: bool, hidden_first: bool
) -> None:
    loaded, published = case
    heads = loaded.wired(
        Wiring(hidden_after_norm=hidden_after_norm, chain_after_norm=chain_after_norm, hidden_first=hidden_first)
    )
    theirs = published.target(TOKENS)[int(hidden_after_norm)]
    ours = heads.hidden(loaded.record())
    for number, cache in enumerate(heads.new_caches()):
        rows = len(TOKENS) - 1 - number
        behind = TOKENS[1 + number :]
        before, after, logits = published.stage(number, theirs[:rows], behind, hidden_first=hidden_first)
        ours = heads.step(number, ours[:rows], mx.array(behind, dtype=mx.uint32), cache)
        theirs = after if chain_after_norm else before
        close(ours, theirs)
        close(heads.logits(number, ours), logits)


@pytest.mark.parametrize("cuts", [[1], [39], [3, 4, 20], [23, 24, 25], list(range(1, 39))], ids=str)
def test_a_prompt_in_chunks_is_the_whole(case: tuple[Loaded, Any], cuts: list[int]) -> None:
    heads = case[0].heads
    hidden = heads.hidden(case[0].record())[:-1]
    behind = mx.array(TOKENS[1:], dtype=mx.uint32)
    whole = heads.step(0, hidden, behind, heads.new_caches()[0])
    cache, parts = heads.new_caches()[0], []
    for start, stop in zip([0, *cuts], [*cuts, 39], strict=True):
        if stop > start:
            parts.append(heads.step(0, hidden[start:stop], behind[start:stop], cache))
    np.testing.assert_allclose(np.array(mx.concatenate(parts)), np.array(whole), atol=1e-4, rtol=1e-4)


# rule: rollback.exact-state
@pytest.mark.parametrize("kept", [0, 1, 4, 24, 25, 38])
def test_rows_that_were_guesses_leave_no_trace(case: tuple[Loaded, Any], kept: int) -> None:
    heads = case[0].heads
    hidden = heads.hidden(case[0].record())[:-1]
    behind = mx.array(TOKENS[1:], dtype=mx.uint32)
    for stage, cache in enumerate(heads.new_caches()):
        if kept:
            heads.step(stage, hidden[:kept], behind[:kept], cache)
        heads.step(stage, hidden[kept:][::-1], behind[kept:][::-1], cache)
        cache.rollback(kept)
        after = heads.step(stage, hidden[kept:], behind[kept:], cache)
        fresh = heads.new_caches()[stage]
        if kept:
            heads.step(stage, hidden[:kept], behind[:kept], fresh)
        expected = heads.step(stage, hidden[kept:], behind[kept:], fresh)
        np.testing.assert_array_equal(np.array(after), np.array(expected))


@pytest.mark.parametrize("bucket", [4, 16])
def test_padded_caches_change_no_output(case: tuple[Loaded, Any], bucket: int) -> None:
    heads = case[0].heads
    hidden = heads.hidden(case[0].record())[:-1]
    behind = mx.array(TOKENS[1:], dtype=mx.uint32)
    for stage, (exact, padded) in enumerate(zip(heads.new_caches(), heads.new_caches(bucket), strict=True)):
        for start, stop in ((0, 5), (5, 6), (6, 20), (20, 23), (23, 39)):
            ours = heads.step(stage, hidden[start:stop], behind[start:stop], padded)
            theirs = heads.step(stage, hidden[start:stop], behind[start:stop], exact)
            np.testing.assert_allclose(np.array(ours), np.array(theirs), atol=1e-4, rtol=1e-4)


def test_a_text_at_every_depth_is_drafting_from_every_row(case: tuple[Loaded, Any]) -> None:
    heads = case[0].heads
    hidden, tokens = heads.hidden(case[0].record()), mx.array(TOKENS, dtype=mx.uint32)
    depth = heads.traits.stages + 2
    along = outputs_along(heads, hidden, tokens, depth)
    for row in (0, 1, 24, 30):
        caches, rows = heads.new_caches(), hidden[: row + 1]
        for index in range(depth):
            stage = heads.traits.stage_of(index)
            iterated = index >= heads.traits.stages
            behind = tokens[row + 1 + index][None] if iterated else tokens[1 + index :][: row + 1]
            rows = heads.step(stage, rows[-1:] if iterated else rows, behind, caches[stage])
            np.testing.assert_allclose(np.array(rows[-1]), np.array(along[index][row]), atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("lowest", [-3.0, -0.9])
def test_experts_of_groups_left_out_are_never_taken(tmp_path: Path, lowest: float) -> None:
    """Where biases push scores below 0, mlx-lm's own rule takes them: its logits are another model's."""
    member = deepseek_v3(1)
    generator = np.random.default_rng(5)
    for tensors in (member.body, member.head):
        for name in [name for name in tensors if name.endswith("e_score_correction_bias")]:
            tensors[name] = (lowest + 0.3 * generator.random(tensors[name].shape)).astype(np.float32)
    loaded, published = load(member, tmp_path), DeepSeek(member.config, member.tensors)
    hidden, _, logits = published.target(TOKENS)
    close(loaded.logits(), logits)
    unmended, _ = load_directory(tmp_path, apart=member.head.__contains__)
    assert np.abs(np.array(unmended(mx.array([TOKENS]))[0]) - logits).max() > 0.1
    heads = loaded.wired(Wiring())
    rows = mx.array(hidden[:-1].astype(np.float32))
    ours = heads.step(0, rows, mx.array(TOKENS[1:]), heads.new_caches()[0])
    close(heads.logits(0, ours), published.stage(0, hidden[:-1], TOKENS[1:], hidden_first=False)[2])
