"""What mlx-lm's classes pass over is loaded all the same, or refused: dropped tensors, rotary scaling."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from eredu.checkpoints.opening import open_checkpoint
from eredu.contract.errors import CheckpointError
from eredu.engine.checkpoint import load_checkpoint, why_not_loaded
from eredu_conformance.zoo import zoo_member

BIAS = "moe_statics.e_score_correction_bias"
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}


def test_dropped_biases_keep_their_type_under_a_cast(tmp_path: Path) -> None:
    directory = zoo_member("ernie-4.5").write(tmp_path / "it")
    loaded = load_checkpoint(directory, tokenizer=None, dtype="bfloat16")
    experts = loaded.model.layers[1].mlp  # type: ignore[attr-defined]
    assert experts.moe_statics.e_score_correction_bias.dtype == mx.float32
    assert experts.gate.weight.dtype == mx.bfloat16


def test_biases_that_a_converter_dropped_are_missed_by_all_commands(tmp_path: Path) -> None:
    member = zoo_member("ernie-4.5")
    body = {name: array for name, array in member.body.items() if not name.endswith(BIAS)}
    directory = replace(member, body=body).write(tmp_path / "it")
    words = why_not_loaded(open_checkpoint(directory))
    with pytest.raises(CheckpointError, match=rf"lacks model\.layers\.1\.mlp\.{BIAS}.*eredu convert") as caught:
        load_checkpoint(directory, tokenizer=None)
    assert str(caught.value) == words


@pytest.mark.parametrize(("name", "follows"), [("ernie-4.5", False), ("glm-4.5", False), ("llama", True)])
@pytest.mark.parametrize("nested", [False, True])
def test_rotary_scaling_is_followed_or_refused(name: str, follows: bool, nested: bool, tmp_path: Path) -> None:
    member = zoo_member(name)
    said = {"rope_parameters": {**YARN, "rope_theta": 1e4}} if nested else {"rope_scaling": YARN}
    directory = replace(member, config={**member.config, **said}).write(tmp_path / "it")
    words = why_not_loaded(open_checkpoint(directory))
    assert (words is None) == follows
    if words is not None:
        assert "scales rotary positions (yarn)" in words
        with pytest.raises(CheckpointError, match="scales rotary positions"):
            load_checkpoint(directory, tokenizer=None)


@pytest.mark.parametrize("scaling", [None, {"type": "linear", "factor": 1}, {"rope_type": "default"}])
def test_settings_that_scale_nothing_are_taken(scaling: dict[str, object] | None, tmp_path: Path) -> None:
    member = zoo_member("glm-4.5")
    directory = replace(member, config={**member.config, "rope_scaling": scaling}).write(tmp_path / "it")
    assert why_not_loaded(open_checkpoint(directory)) is None
