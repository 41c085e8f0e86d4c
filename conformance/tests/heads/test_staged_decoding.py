"""Decoding with staged heads: the tokens of plain decoding, rejected at every row, and caches without a guess."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from eredu.contract.options import GenerationOptions, SamplingOptions
from eredu.drafters.head_state import HeadState
from eredu.engine.checkpoint import LoadedCheckpoint, load_checkpoint
from eredu.engine.executor import MlxExecutor
from eredu.engine.mlx_backend import MlxBackend
from eredu.families.staged_heads import StagedHeads
from eredu.loaded import LoadedModel
from eredu.mlx.placement import Placement
from eredu.mlx.taps import recording
from eredu.prepared import PreparedRequest
from eredu.results import GenerationResult
from eredu_conformance.zoo import ZooMember, deepseek_v3, deepseek_v32, nemotron_h

MEMBERS: dict[str, Callable[[], ZooMember]] = {
    "deepseek-v3": lambda: deepseek_v3(2),
    "deepseek-v3.2": deepseek_v32,
    "nemotron-h": lambda: nemotron_h(2),
}
RULES: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "coupled": {"temperature": 0.9, "acceptance": "coupled"},
    "rejection": {"temperature": 0.9, "acceptance": "rejection"},
    "block": {"temperature": 0.9, "acceptance": "block"},
}
EXACT = ["greedy", "coupled"]
GREEDY = SamplingOptions(temperature=0.0)
PROMPT = tuple(int(token) for token in np.random.default_rng(2).integers(0, 64, size=21))
LENGTH = 40


@pytest.fixture(scope="module", params=list(MEMBERS))
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedCheckpoint:
    directory = MEMBERS[request.param]().write(tmp_path_factory.mktemp("zoo"))
    return load_checkpoint(directory, tokenizer=None)


def decode(checkpoint: LoadedCheckpoint, rule: str, count: int, prompt: tuple[int, ...] = PROMPT) -> GenerationResult:
    """Decode with `count` proposals a round; 0 decodes plainly."""
    chosen = dict(RULES[rule])
    options = GenerationOptions(
        sampling=SamplingOptions(temperature=chosen.pop("temperature")),
        max_tokens=LENGTH,
        seed=5,
        max_proposals=count,
        eos_ids=frozenset(),
        **chosen,
    )
    model = LoadedModel(MlxBackend(checkpoint, Placement.choose()))
    request = PreparedRequest(prompt=prompt, options=options)
    if count == 0:
        return model.generate_prepared_chat([request]).results[0]
    return model.generate_prepared_chat_mtp(request, None)


def script(patch: pytest.MonkeyPatch, plain: GenerationResult, count: int) -> None:
    """Let the heads run, and replace what they say: right up to a row that changes from round to round, then wrong."""
    original = HeadState.draft_step
    limits = np.random.default_rng(4).integers(0, count + 1, size=LENGTH)

    def draft_step(
        self: HeadState, heads: Any, index: int, committed: list[int], proposals: list[mx.array]
    ) -> mx.array:
        logits = original(self, heads, index, committed, proposals)
        position = len(committed) - len(PROMPT)
        right = index < limits[position]
        token = plain.tokens[position + index] if position + index < LENGTH else 0
        says = (token + int(not right)) % logits.shape[-1]
        return 0 * logits + 1e3 * (mx.arange(logits.shape[-1]) == says)

    patch.setattr(HeadState, "draft_step", draft_step)


# rule: verify.greedy-argmax, verify.coupled-shared-vector, rollback.exact-state
@pytest.mark.parametrize("rule", EXACT)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_tokens_are_the_plain_ones_with_rejections_at_every_row(
    checkpoint: LoadedCheckpoint, rule: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = decode(checkpoint, rule, 0)
    unscripted = decode(checkpoint, rule, count)
    script(monkeypatch, plain, count)
    scripted = decode(checkpoint, rule, count)
    assert unscripted.tokens == scripted.tokens == plain.tokens
    assert len(plain.tokens) == LENGTH
    for result in (unscripted, scripted):
        result.statistics.check()
    lengths = {length for length, rounds in enumerate(scripted.statistics.rounds_by_length) if rounds}
    assert lengths == set(range(count + 1)), "every number of accepted proposals must occur"


def test_no_proposals_leave_the_heads_alone(checkpoint: LoadedCheckpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(*_: Any) -> mx.array:
        raise AssertionError("a head ran")

    plain = decode(checkpoint, "greedy", 0)
    monkeypatch.setattr(StagedHeads, "step", step)
    model = LoadedModel(MlxBackend(checkpoint, Placement.choose()))
    options = GenerationOptions(max_tokens=LENGTH, seed=5, max_proposals=0, eos_ids=frozenset(), sampling=GREEDY)
    assert (
        model.generate_prepared_chat_mtp(PreparedRequest(prompt=PROMPT, options=options), None).tokens == plain.tokens
    )


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_every_rule_keeps_its_books(checkpoint: LoadedCheckpoint, rule: str) -> None:
    result = decode(checkpoint, rule, 3)
    result.statistics.check()
    assert len(result.tokens) == LENGTH
    assert result.statistics.drafted > LENGTH / 2


@pytest.mark.parametrize("prompt", [(7,), (7, 8), (7, 8, 9)], ids=len)
def test_short_prompts_are_the_plain_ones(checkpoint: LoadedCheckpoint, prompt: tuple[int, ...]) -> None:
    assert decode(checkpoint, "greedy", 3, prompt).tokens == decode(checkpoint, "greedy", 0, prompt).tokens


# rule: rollback.drafter-follows
@pytest.mark.parametrize("count", [1, 3])
def test_head_caches_hold_true_rows_alone(
    checkpoint: LoadedCheckpoint, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After forced rejections, what a stage remembers is what teacher forcing gives: no guess, no gap, no shift."""
    kept: list[Any] = []
    original = MlxExecutor.commit

    def commit(self: MlxExecutor, sequence: Any, plan: Any, branch: Any) -> Any:
        result = original(self, sequence, plan, branch)
        for stage in sequence.drafter.stages:
            parts = getattr(stage.cache, "caches", [stage.cache])
            assert {part.offset for part in parts} == {stage.true_rows}
        kept[:] = [sequence.drafter, list(sequence.tokens)]
        return result

    script(monkeypatch, decode(checkpoint, "greedy", 0), count)
    monkeypatch.setattr(MlxExecutor, "commit", commit)
    decode(checkpoint, "greedy", count)
    state, tokens = kept
    heads: Any = checkpoint.heads
    with recording() as record:
        mx.eval(checkpoint.model(mx.array([tokens])))
    rows = heads.hidden(record)
    assert len(state.stages) == min(count, heads.traits.stages), "stages that never propose are not even warmed"
    for number, (stage, fresh) in enumerate(zip(state.stages, heads.new_caches(), strict=False)):
        assert stage.true_rows > len(PROMPT)
        behind = mx.array(tokens[1 + number :][: stage.true_rows], dtype=mx.uint32)
        rows = heads.step(number, rows[: stage.true_rows], behind, fresh)
        for ours, theirs in zip(held(stage.cache), held(fresh), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-4, rtol=2e-4)


def held(cache: Any) -> list[Any]:
    parts = getattr(cache, "caches", [cache])
    return [np.array(rows[..., : part.offset, :]) for part in parts for rows in (part.keys, part.values)]
