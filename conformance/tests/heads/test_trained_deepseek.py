"""The trained head of tiny-deepseek-v3: it follows its target under the right wiring and positions, and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest

from eredu.checkpoints.names import resolve_checkpoint
from eredu.checkpoints.opening import open_checkpoint
from eredu.checkpoints.wiring import Wiring
from eredu.contract.options import GenerationOptions, SamplingOptions
from eredu.engine.alignment import TargetRows, follow
from eredu.engine.checkpoint import LoadedCheckpoint, load_checkpoint
from eredu.engine.mlx_backend import MlxBackend
from eredu.engine.probe import ANSWER, QUESTION
from eredu.families.prediction_heads import FINAL_NORM, PredictionHeads
from eredu.loaded import LoadedModel
from eredu.mlx.placement import Placement
from eredu.mlx.taps import Recording
from eredu.prepared import PreparedRequest

DEPTH = 3


@pytest.fixture(scope="module")
def checkpoint() -> LoadedCheckpoint:
    path = resolve_checkpoint("tiny-deepseek-v3")
    return load_checkpoint(path, tokenizer=open_checkpoint(path).tokenizer)


@pytest.fixture(scope="module")
def prompt(checkpoint: LoadedCheckpoint) -> tuple[int, ...]:
    assert checkpoint.tokenizer is not None
    return tuple(checkpoint.tokenizer.encode(f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"))


@pytest.fixture(scope="module")
def rows(checkpoint: LoadedCheckpoint, prompt: tuple[int, ...]) -> TargetRows:
    assert checkpoint.tokenizer is not None
    target = MlxBackend(checkpoint, Placement.choose()).target_model
    return TargetRows.read(target, [*prompt, *checkpoint.tokenizer.encode(ANSWER)], first=len(prompt))


def acceptance(heads: Any, rows: TargetRows) -> list[float]:
    return [float(followed.accept.mean()) for followed in follow(heads, rows, DEPTH)]


def heads_of(checkpoint: LoadedCheckpoint) -> PredictionHeads:
    assert isinstance(checkpoint.heads, PredictionHeads)
    return checkpoint.heads


def test_the_head_follows_at_every_depth(checkpoint: LoadedCheckpoint, rows: TargetRows) -> None:
    assert min(acceptance(heads_of(checkpoint), rows)) > 0.6


@pytest.mark.parametrize("hidden_after_norm", [False, True])
def test_the_hidden_state_in_front_of_the_embedding_loses(
    checkpoint: LoadedCheckpoint, rows: TargetRows, hidden_after_norm: bool
) -> None:
    wiring = Wiring(hidden_after_norm=hidden_after_norm, hidden_first=True, chain_after_norm=True)
    assert acceptance(replace(heads_of(checkpoint), wiring=wiring), rows)[0] < 0.2


def _norm(rows: TargetRows) -> tuple[dict[str, mx.array], dict[str, mx.array]]:
    """What flowed into the target's final norm and out of it, each (1, tokens, hidden size) by the tap's name."""
    return {FINAL_NORM: rows.record.inputs[FINAL_NORM]}, {FINAL_NORM: rows.record.outputs[FINAL_NORM]}


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_hidden_state_of_another_position_loses(checkpoint: LoadedCheckpoint, rows: TargetRows, shift: int) -> None:
    before, behind = ({name: mx.roll(array, shift, 1) for name, array in side.items()} for side in _norm(rows))
    moved = replace(rows, record=Recording(inputs=before, outputs=behind))
    right, wrong = (acceptance(heads_of(checkpoint), some)[0] for some in (rows, moved))
    assert wrong < right - 0.05


# rule: verify.greedy-argmax, verify.coupled-shared-vector, rollback.exact-state
@pytest.mark.parametrize("rule", [{"temperature": 0.0}, {"temperature": 0.8, "acceptance": "coupled"}], ids=str)
def test_decoding_gives_the_plain_tokens_and_real_acceptance(
    checkpoint: LoadedCheckpoint, prompt: tuple[int, ...], rule: dict[str, Any]
) -> None:
    chosen = dict(rule)
    sampling = SamplingOptions(temperature=chosen.pop("temperature"))
    options = GenerationOptions(
        sampling=sampling, max_tokens=40, seed=2, max_proposals=DEPTH, eos_ids=frozenset(), **chosen
    )
    model = LoadedModel(MlxBackend(checkpoint, Placement.choose()))
    request = PreparedRequest(prompt=prompt, options=options)
    plain = model.generate_prepared_chat([request]).results[0]
    result = model.generate_prepared_chat_mtp(request, None)
    assert result.tokens == plain.tokens
    assert result.statistics.accepted > result.statistics.drafted / 5
