"""What is refused, what is clipped: contexts, padding ids, tokenizers, NaN weights, caches that cannot roll back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from eredu.checkpoints.opening import open_checkpoint
from eredu.commands.inspect import fit_named
from eredu.contract.errors import (
    AcceptanceError,
    CapabilityError,
    CheckpointError,
    EreduError,
    OptionError,
    TokenizerError,
)
from eredu.contract.options import MtpSchedulerOptions
from eredu.engine.checkpoint import LoadedCheckpoint, load_checkpoint
from eredu.engine.mlx_backend import Assistant, MlxBackend
from eredu.loaded import LoadedModel
from eredu.mlx.caches.sequence import SequenceCache
from eredu.mlx.models import FittedModel
from eredu.mlx.placement import Placement, PlacementKind
from eredu.prepared import PreparedRequest
from eredu.results import GenerationResult
from eredu.scheduling.scheduler import SpeculativeScheduler
from eredu_conformance.crafted.tokenizer import ALPHABET, tokenizer_config, tokenizer_json
from eredu_conformance.harness.tiny_models import TinyDecoder

Decode = Callable[..., GenerationResult]
Load = Callable[[TinyDecoder], LoadedCheckpoint]
TARGET = TinyDecoder(vocabulary=40, layers=1, seed=9)
RULES: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 1.0, "acceptance": "coupled"},
]
ALL_RULES: list[dict[str, Any]] = [
    *RULES,
    {"temperature": 1.0, "acceptance": "rejection"},
    {"temperature": 1.0, "acceptance": "block"},
]


# rule: draft.clip, terminal.budget-counts-tokens
@pytest.mark.parametrize("settings", RULES, ids=["greedy", "coupled"])
@pytest.mark.parametrize(("target_context", "draft_context"), [(24, 512), (512, 24), (24, 24), (24, 9), (40, 4)])
def test_contexts_bound_the_output_and_the_drafts_only(
    load: Load, decode: Decode, settings: dict[str, Any], target_context: int, draft_context: int
) -> None:
    target = load(replace(TARGET, context=target_context))
    assistant = Assistant(load(replace(TARGET.noisy(0.08), context=draft_context)))
    plain = decode((target, assistant), plain=True, max_tokens=60, **settings)
    for lookahead in (False, True):
        schedule = MtpSchedulerOptions(lookahead=lookahead, adaptive_lookahead=False)
        result = decode((target, assistant), max_tokens=60, max_proposals=5, schedule=schedule, **settings)
        assert (result.tokens, result.finish) == (plain.tokens, plain.finish)
        reasons = {reason for reason, _ in result.statistics.clipped}
        if draft_context < 24:
            assert "drafter-context" in reasons
        elif target_context < 60:
            assert "target-context" in reasons
            assert "budget" not in reasons
    if target_context < 60:
        assert (len(plain.tokens), str(plain.finish)) == (target_context - 5 + 1, "context")


# rule: draft.clip
def test_no_model_is_fed_past_its_context(load: Load, decode: Decode, monkeypatch: pytest.MonkeyPatch) -> None:
    target, assistant = load(replace(TARGET, context=20)), load(replace(TARGET.noisy(0.08), context=16))
    longest: dict[int, int] = {}
    original = SequenceCache.feed_recorded

    def spy(self: SequenceCache, model: Any, tokens: mx.array) -> Any:
        result = original(self, model, tokens)
        longest[id(model)] = max(longest.get(id(model), 0), self.length)
        return result

    monkeypatch.setattr(SequenceCache, "feed_recorded", spy)
    for settings in ALL_RULES:
        decode((target, Assistant(assistant)), max_tokens=99, max_proposals=6, **settings)
        decode((target, Assistant(assistant)), plain=True, max_tokens=99, **settings)
    assert longest[id(target.model)] <= 20
    assert longest[id(assistant.model)] <= 16


def test_a_prompt_longer_than_the_context_is_refused(load: Load, decode: Decode) -> None:
    pair = (load(replace(TARGET, context=4)), Assistant(load(TARGET)))
    with pytest.raises(OptionError, match="shorten"):
        decode(pair)
    with pytest.raises(OptionError, match="vocabulary"):
        decode((load(TARGET), Assistant(load(TARGET))), prompt=(1, 40))


def with_tokenizer(directory: Path, decoder: TinyDecoder, ids: int) -> LoadedCheckpoint:
    """A decoder with a tokenizer of fewer ids than it has rows."""
    decoder.write(directory)
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer_json(ids, None)))
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer_config(512, None)))
    return load_checkpoint(directory, tokenizer=open_checkpoint(directory).tokenizer)


# rule: capability.same-vocabulary
@pytest.mark.parametrize("rows", [(40, 48), (48, 40), (40, 40), (36, 48)])
def test_padding_ids_are_neither_proposed_nor_emitted(tmp_path: Path, decode: Decode, rows: tuple[int, int]) -> None:
    """Both models love the rows behind the tokenizer's 36 ids."""
    sides = []
    for name, size, seed in (("target", rows[0], 9), ("draft", rows[1], 9)):
        decoder = replace(TARGET, vocabulary=size, seed=seed)
        tokenizer = with_tokenizer(tmp_path / name, decoder, 36).tokenizer
        weights = decoder.weights()
        weights["lm_head.weight"][36:] *= 30
        sides.append(load_checkpoint(decoder.write(tmp_path / name, weights=weights), tokenizer=tokenizer))
    pair = (sides[0], Assistant(sides[1]))
    proposed: list[int] = []

    def trace(event: dict[str, Any]) -> None:
        if event["event"] == "resolve":
            proposed.extend(event["tokens"])

    for settings in ALL_RULES:
        result = decode(pair, max_tokens=40, trace=trace, **settings)
        plain = decode(pair, plain=True, max_tokens=40, **settings)
        if settings in RULES:
            assert result.tokens == plain.tokens
        assert max(*result.tokens, *plain.tokens) < 36
        assert len(result.text) == 40
    assert proposed
    assert max(proposed) < 36


def test_fitted_logits_exclude_padding_holes_and_missing_rows(load: Load) -> None:
    model = load(TARGET).model
    for rows, own, proposable, holes in ((40, 48, 36, (3, 7)), (48, 40, 36, ()), (40, 40, 40, ()), (50, 40, 40, (0,))):
        fitted = FittedModel(model, rows, 512, None, holes, proposable=proposable).fit(mx.zeros((2, own)))
        assert fitted.shape == (2, rows)
        allowed = [token for token in range(proposable) if token not in holes]
        assert np.flatnonzero(np.array(mx.isfinite(fitted[1]))).tolist() == allowed
    target = FittedModel(model, 40, 512, None, (2, 39)).fit(mx.zeros((1, 40)))
    assert np.flatnonzero(np.array(target[0]) == -np.inf).tolist() == [2, 39]


# rule: capability.same-vocabulary
def test_another_tokenizer_is_refused_with_the_first_difference(tmp_path: Path, decode: Decode) -> None:
    target = with_tokenizer(tmp_path / "target", TARGET, 36)
    other = with_tokenizer(tmp_path / "other", TARGET, 35)
    with pytest.raises(TokenizerError, match="id 35"):
        decode((target, Assistant(other)))
    bare = replace(other, tokenizer=None)
    with pytest.raises(TokenizerError, match="only one"):
        decode((target, Assistant(bare)))


@pytest.mark.parametrize("short", ["target", "assistant"])
def test_a_model_without_a_row_for_every_id_is_refused_as_inspection_refuses_it(
    tmp_path: Path, decode: Decode, short: str
) -> None:
    sides = {
        name: with_tokenizer(tmp_path / name, replace(TARGET, vocabulary=35) if name == short else TARGET, 36)
        for name in ("target", "assistant")
    }
    with pytest.raises(CheckpointError) as inspected:
        fit_named(*(str(side.path) for side in sides.values()))
    assert "has 35 embedding rows, and its tokenizer 36 ids" in str(inspected.value)
    with pytest.raises(CheckpointError) as decoded:
        decode((sides["target"], Assistant(sides["assistant"])))
    assert str(decoded.value) == str(inspected.value)


def test_without_tokenizers_the_rows_must_agree(load: Load, decode: Decode) -> None:
    with pytest.raises(TokenizerError, match="48"):
        decode((load(TARGET), Assistant(load(replace(TARGET, vocabulary=48)))))


def test_models_are_fitted_once_and_each_assistant_by_itself(tmp_path: Path) -> None:
    """Going through a large vocabulary takes a while, so it is not done for every request; a refusal stays one."""
    target = with_tokenizer(tmp_path / "target", TARGET, 36)
    backend = MlxBackend(target, Placement.choose())
    one, two = Assistant(target), Assistant(with_tokenizer(tmp_path / "two", TARGET.noisy(0.1), 36))
    assert backend.target_model is backend.target_model
    assert backend.assistant_model(one) is backend.assistant_model(one)
    fitted = [backend.assistant_model(each).model for each in (one, two, one)]
    assert [model is target.model for model in fitted] == [True, False, True]
    wrong = Assistant(with_tokenizer(tmp_path / "wrong", TARGET, 35))
    for _ in range(2):
        with pytest.raises(TokenizerError, match="id 35"):
            backend.assistant_model(wrong)
    assert replace(backend, target=two.checkpoint).target_model.model is two.checkpoint.model


def test_text_is_the_tokenizers_and_stop_strings_are_cut(tmp_path: Path, decode: Decode) -> None:
    target = with_tokenizer(tmp_path / "target", replace(TARGET, vocabulary=36), 36)
    pair = (target, Assistant(target))
    free = decode(pair, temperature=1.0, acceptance="coupled", max_tokens=40)
    assert free.text == "".join(ALPHABET[token] for token in free.tokens)
    for start in (3, 10, 17):
        stop = free.text[start : start + 3]
        cut = decode(pair, temperature=1.0, acceptance="coupled", max_tokens=40, stop_strings=(stop,))
        assert cut.text == free.text[: free.text.index(stop)]
        assert cut.tokens == free.tokens[: free.text.index(stop) + 3]
        assert str(cut.finish) == "stop"


def test_stop_strings_without_a_tokenizer_are_refused(llama: Any, decode: Decode) -> None:
    with pytest.raises(OptionError, match="tokenizer"):
        decode(llama, stop_strings=("x",))


def poisoned(load: Load, tmp_path: Path, decoder: TinyDecoder, token: int) -> LoadedCheckpoint:
    """A decoder whose embedding of one id is NaN: whoever reads that id sees NaN from there on."""
    weights = decoder.weights()
    weights["model.embed_tokens.weight"][token] = np.nan
    return load_checkpoint(decoder.write(tmp_path / f"nan-{decoder.noise}", weights=weights), tokenizer=None)


# rule: verify.invalid-is-error
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("settings", ALL_RULES, ids=["greedy", "coupled", "rejection", "block"])
def test_nan_weights_fail_their_request_and_no_other(
    load: Load, lend: Any, make_request: Any, tmp_path: Path, settings: dict[str, Any], *, plain: bool
) -> None:
    pair = (poisoned(load, tmp_path, TARGET, 39), Assistant(load(TARGET.noisy(0.08))))
    bias = {"logit_bias": {39: -1e9}}
    scheduler = SpeculativeScheduler[Any, Any, Any](lend(pair, plain))
    for index, prompt in enumerate([(1, 2, 3), (1, 39, 3), (7, 8)]):
        count = 0 if plain else 3
        scheduler.add(make_request(index, prompt=prompt, max_tokens=20, max_proposals=count, **settings, **bias))
    with pytest.raises(AcceptanceError, match="finite"):
        scheduler.run()
    scheduler.run()
    assert [str(scheduler.finish(index)) for index in range(3)] == ["length", "failed", "length"]
    assert scheduler.output(1) == ()
    for index, prompt in ((0, (1, 2, 3)), (2, (7, 8))):
        alone = SpeculativeScheduler[Any, Any, Any](lend((load(TARGET), pair[1]), plain))
        count = 0 if plain else 3
        alone.add(make_request(index, prompt=prompt, max_tokens=20, max_proposals=count, **settings, **bias))
        alone.run()
        assert scheduler.output(index) == alone.output(index)


# rule: verify.invalid-is-error
@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_a_nan_drafter_is_an_error_where_its_distribution_counts(
    load: Load, decode: Decode, tmp_path: Path, rule: str
) -> None:
    pair = (load(TARGET), Assistant(poisoned(load, tmp_path, TARGET, 3)))
    with pytest.raises(AcceptanceError, match="own distribution"):
        decode(pair, temperature=1.0, acceptance=rule)


@pytest.mark.parametrize("settings", RULES, ids=["greedy", "coupled"])
def test_a_nan_drafter_only_slows_where_tokens_are_compared(
    load: Load, decode: Decode, tmp_path: Path, settings: dict[str, Any]
) -> None:
    pair = (load(TARGET), Assistant(poisoned(load, tmp_path, TARGET, 3)))
    assert decode(pair, **settings).tokens == decode(pair, plain=True, **settings).tokens


# rule: rollback.exact-state
@pytest.mark.parametrize("settings", ALL_RULES, ids=["greedy", "coupled", "rejection", "block"])
def test_sliding_windows_are_crossed_by_speculation(load: Load, decode: Decode, settings: dict[str, Any]) -> None:
    """The target's, and the assistant's too: the plain tokens, where the rule promises them."""
    windowed = load(replace(TARGET, layers=2, window=8))
    plain = decode((windowed, Assistant(load(TARGET))), plain=True, max_tokens=40, **settings)
    assert len(plain.tokens) == 40
    for pair in ((windowed, Assistant(load(TARGET))), (windowed, Assistant(windowed))):
        result = decode(pair, max_tokens=40, **settings)
        assert result.statistics.accepted > 0
        if settings in RULES:
            assert result.tokens == plain.tokens
    if settings["temperature"] == 0:
        history = [1, 2, 3, 4, 5]
        for _ in range(40):
            logits = windowed.model(mx.array([history], dtype=mx.uint32))[0, -1]
            history.append(int(np.argmax(np.array(logits))))
        assert plain.tokens == tuple(history[5:])


# rule: capability.no-silent-fallback
def test_there_is_no_speculation_without_a_drafter(llama: Any) -> None:
    model = LoadedModel(MlxBackend(llama[0], Placement.choose()))
    with pytest.raises(CapabilityError, match="assistant"):
        model.generate_prepared_chat_mtp(PreparedRequest(prompt=(1,)))


def test_placements_are_chosen_by_name() -> None:
    assert Placement.choose("one-stream").kind is PlacementKind.ONE_STREAM
    one = Placement.choose("one-stream")
    assert one.target_stream == one.draft_stream
    two = Placement.choose("two-streams")
    assert two.target_stream != two.draft_stream
    with pytest.raises(OptionError, match="three-streams"):
        Placement.choose("three-streams")
    if mx.default_device().type == mx.DeviceType.cpu:
        with pytest.raises(EreduError, match="GPU"):
            Placement.choose("two-devices")
