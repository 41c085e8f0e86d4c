"""Decoding with fused heads: the tokens of plain decoding, rejected at every row, and states that are a replay's."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from eredu.contract.capability import MtpCapability, MtpCheckpointKind
from eredu.contract.errors import CapabilityError
from eredu.contract.options import GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.drafters.head_state import HeadState
from eredu.engine.checkpoint import LoadedCheckpoint, load_checkpoint
from eredu.engine.executor import MlxExecutor
from eredu.engine.mlx_backend import Assistant, MlxBackend
from eredu.loaded import LoadedModel
from eredu.mlx.caches.sequence import SequenceCache
from eredu.mlx.placement import Placement
from eredu.mlx.taps import recording
from eredu.prepared import PreparedRequest
from eredu.results import GenerationResult
from eredu_conformance.zoo import zoo_member

MEMBERS = ("qwen3.5", "qwen3.5-moe", "qwen3-next")
RULES: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "coupled": {"temperature": 0.9, "acceptance": "coupled"},
    "rejection": {"temperature": 0.9, "acceptance": "rejection"},
    "block": {"temperature": 0.9, "acceptance": "block"},
}
EXACT = ["greedy", "coupled"]
PROMPT = tuple(int(token) for token in np.random.default_rng(2).integers(0, 64, size=19))
LENGTH = 40
DEPTH = 5


@pytest.fixture(scope="module", params=MEMBERS)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedCheckpoint:
    """A member whose head may be iterated to `DEPTH`."""
    loaded = load_checkpoint(zoo_member(request.param).write(tmp_path_factory.mktemp("zoo")), tokenizer=None)
    assert loaded.heads is not None
    assert (loaded.heads.traits.stages, loaded.heads.traits.max_proposals) == (1, 1)
    return replace(loaded, heads=loaded.heads.capped(DEPTH))


def decode(
    checkpoint: LoadedCheckpoint,
    rule: str,
    count: int,
    prompt: tuple[int, ...] = PROMPT,
    drafter: Assistant | None = None,
    **settings: Any,
) -> GenerationResult:
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
        return model.generate_prepared_chat([request], **settings).results[0]
    return model.generate_prepared_chat_mtp(request, drafter, **settings)


def script(patch: pytest.MonkeyPatch, plain: GenerationResult, count: int) -> None:
    """Let the head run, and replace what it says: right up to a row that changes from round to round, then wrong."""
    original = HeadState.draft_step
    limits = np.random.default_rng(4).integers(0, count + 1, size=LENGTH)

    def draft_step(
        self: HeadState, heads: Any, index: int, committed: list[int], proposals: list[mx.array]
    ) -> mx.array:
        logits = original(self, heads, index, committed, proposals)
        position = len(committed) - len(PROMPT)
        token = plain.tokens[position + index] if position + index < LENGTH else 0
        says = (token + int(index >= limits[position])) % logits.shape[-1]
        return 0 * logits + 1e3 * (mx.arange(logits.shape[-1]) == says)

    patch.setattr(HeadState, "draft_step", draft_step)


# rule: verify.greedy-argmax, verify.coupled-shared-vector, rollback.exact-state
@pytest.mark.parametrize("rule", EXACT)
@pytest.mark.parametrize("count", [1, 3, DEPTH])
def test_tokens_are_the_plain_ones_with_rejections_at_every_row(
    checkpoint: LoadedCheckpoint, rule: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = decode(checkpoint, rule, 0)
    unscripted = decode(checkpoint, rule, count)
    script(monkeypatch, plain, count)
    scripted = decode(checkpoint, rule, count)
    assert unscripted.tokens == scripted.tokens == plain.tokens
    assert len(set(plain.tokens)) > LENGTH / 4, "the output must not settle on a loop"
    for result in (unscripted, scripted):
        result.statistics.check()
    lengths = {length for length, rounds in enumerate(scripted.statistics.rounds_by_length) if rounds}
    assert lengths == set(range(count + 1)), "every number of accepted proposals must occur"


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_every_rule_keeps_its_books(checkpoint: LoadedCheckpoint, rule: str) -> None:
    result = decode(checkpoint, rule, 3)
    result.statistics.check()
    assert len(result.tokens) == LENGTH
    assert result.statistics.drafted > LENGTH / 2


def test_proposals_stop_at_the_validated_depth(checkpoint: LoadedCheckpoint) -> None:
    result = decode(checkpoint, "greedy", DEPTH + 3)
    assert dict(result.statistics.clipped)["capability"] > 0
    assert len(result.statistics.rounds_by_length) <= DEPTH + 1


# rule: scheduling.prefill-in-chunks
@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 5, 18, 19])
def test_a_prompt_in_chunks_is_the_whole(
    checkpoint: LoadedCheckpoint, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What target and head remember of the prompt does not depend on where it was cut."""
    opened: list[Any] = []
    original = MlxExecutor.draft

    def draft(self: MlxExecutor, sequence: Any, *arguments: Any) -> Any:
        if sequence.position == 0:
            (stage,) = sequence.drafter.stages
            cached = held(sequence.target.layers), held([stage.cache])
            opened.append((*cached, [np.array(rows) for rows in stage.pending], stage.true_rows))
        return original(self, sequence, *arguments)

    monkeypatch.setattr(MlxExecutor, "draft", draft)
    cut = decode(checkpoint, "greedy", 3, schedule=MtpSchedulerOptions(prefill_chunk=chunk))
    assert cut.tokens == decode(checkpoint, "greedy", 3).tokens
    mine, whole = opened
    assert mine[3] == whole[3] == len(PROMPT) - 2
    for ours, theirs in zip([*mine[0], *mine[1], *mine[2]], [*whole[0], *whole[1], *whole[2]], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5, rtol=2e-5)


# rule: scheduling.requests-independent
@pytest.mark.parametrize("rule", ["coupled", "rejection"])
def test_company_changes_no_token(checkpoint: LoadedCheckpoint, rule: str) -> None:
    """Three requests in one schedule are the three alone: heads keep what they read to their own sequence."""
    chosen = dict(RULES[rule])
    options = GenerationOptions(
        sampling=SamplingOptions(temperature=chosen.pop("temperature")),
        max_tokens=16,
        max_proposals=3,
        eos_ids=frozenset(),
        **chosen,
    )
    model = LoadedModel(MlxBackend(checkpoint, Placement.choose()))
    prompts = [PROMPT[:1], PROMPT[:6], PROMPT]
    requests = [
        PreparedRequest(prompt=prompt, options=replace(options, seed=seed)) for seed, prompt in enumerate(prompts)
    ]
    schedule = MtpSchedulerOptions(prefill_chunk=4)
    together = model.generate_prepared_chat_mtp_batch(requests, schedule=schedule).results
    alone = [model.generate_prepared_chat_mtp(request) for request in requests]
    assert [result.tokens for result in together] == [result.tokens for result in alone]


# rule: draft.clip
@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_prompt_of_one_token_is_decoded_plainly_for_one_round(checkpoint: LoadedCheckpoint, length: int) -> None:
    events: list[dict[str, Any]] = []
    prompt = PROMPT[:length]
    result = decode(checkpoint, "greedy", 3, prompt, trace=events.append)
    assert result.tokens == decode(checkpoint, "greedy", 0, prompt).tokens
    first = next(event for event in events if event["event"] == "draft")
    assert (first["k"], first["clip"]) == ((0, "hidden-state") if length == 1 else (3, "request"))
    assert dict(result.statistics.clipped).get("hidden-state", 0) == int(length == 1)


# rule: rollback.exact-state, rollback.drafter-follows
@pytest.mark.parametrize("count", [1, 4])
def test_caches_after_rejections_are_those_of_the_tokens_alone(
    checkpoint: LoadedCheckpoint, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target's state, recurrent layers too, is that of one row after another; the head's holds true rows alone."""
    kept: list[Any] = []
    original = MlxExecutor.commit

    def commit(self: MlxExecutor, sequence: Any, plan: Any, branch: Any) -> Any:
        result = original(self, sequence, plan, branch)
        (stage,) = sequence.drafter.stages
        assert stage.cache.offset == stage.true_rows
        kept[:] = [sequence.target, stage, list(sequence.tokens)]
        return result

    script(monkeypatch, decode(checkpoint, "greedy", 0), count)
    monkeypatch.setattr(MlxExecutor, "commit", commit)
    decode(checkpoint, "greedy", count)
    target, stage, tokens = kept
    replayed = SequenceCache(checkpoint.model, recurrences=checkpoint.recurrences)
    for token in tokens[:-1]:
        mx.eval(replayed.feed(checkpoint.model, mx.array([token], dtype=mx.uint32)))
    for ours, theirs in zip(held(target.layers), held(replayed.layers), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-5)
    heads: Any = checkpoint.heads
    with recording() as record:
        mx.eval(checkpoint.model(mx.array([tokens])))
    (fresh,) = heads.new_caches()
    behind = mx.array(tokens[1:][: stage.true_rows], dtype=mx.uint32)
    heads.step(0, heads.hidden(record)[: stage.true_rows], behind, fresh)
    assert stage.true_rows > len(PROMPT)
    for ours, theirs in zip(held([stage.cache]), held([fresh]), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4, rtol=1e-4)


def held(layers: Any) -> list[NDArray[np.float32]]:
    found: list[NDArray[np.float32]] = []
    for layer in layers:
        if hasattr(layer, "offset"):
            found += [np.array(rows[..., : layer.offset, :]) for rows in (layer.keys, layer.values)]
        else:
            found += [np.array(entry) for entry in layer.cache]
    return found


# rule: rollback.exact-state
@pytest.mark.parametrize("length", [1, 3, 4, 22])
@pytest.mark.parametrize("accepted", [0, 1, 4, 6])
def test_rollback_is_a_deep_copy_and_the_replay_of_one_token_after_another(
    checkpoint: LoadedCheckpoint, length: int, accepted: int
) -> None:
    """On both sides of the convolution's kernel; bit for bit on a CPU."""
    model, text = checkpoint.model, np.random.default_rng(3).integers(0, 64, size=40).tolist()
    cache = SequenceCache(model, recurrences=checkpoint.recurrences)
    mx.eval(cache.feed(model, mx.array(text[:length], dtype=mx.uint32)))
    replayed = deepcopy(cache)
    mx.eval(cache.feed(model, mx.array(text[length : length + 6], dtype=mx.uint32)))
    cache.rollback(length + accepted)
    for token in text[length : length + accepted]:
        mx.eval(replayed.feed(model, mx.array([token], dtype=mx.uint32)))
    exact = mx.default_device().type == mx.DeviceType.cpu
    for ours, theirs in zip(held(cache.layers), held(replayed.layers), strict=True):
        if exact:
            assert ours.tobytes() == theirs.tobytes()
        else:
            np.testing.assert_allclose(ours, theirs, atol=1e-4, rtol=1e-4)


# rule: capability.no-silent-fallback
def test_heads_give_the_capability(checkpoint: LoadedCheckpoint) -> None:
    backend = MlxBackend(checkpoint, Placement.choose())
    assert backend.mtp_capability(None) == MtpCapability.ready(MtpCheckpointKind.EMBEDDED)
    bare = MlxBackend(replace(checkpoint, heads=None), Placement.choose())
    assert bare.mtp_capability(None) == MtpCapability.unavailable()
    with pytest.raises(CapabilityError, match="unavailable"):
        LoadedModel(bare).generate_prepared_chat_mtp(PreparedRequest(prompt=PROMPT))


# rule: rollback.exact-state, promotion.consume-one-reuse-the-rest
def test_a_recurrent_model_drafts_for_itself(checkpoint: LoadedCheckpoint) -> None:
    """As its own assistant it takes back a feed for each proposal, of blocks and of branches."""
    drafter = Assistant(replace(checkpoint, heads=None))
    result = decode(checkpoint, "coupled", 3, drafter=drafter)
    assert result.tokens == decode(checkpoint, "coupled", 0).tokens
    assert result.statistics.accepted > LENGTH / 2
