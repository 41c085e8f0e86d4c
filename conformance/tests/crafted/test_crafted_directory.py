"""The written directory: an ordinary one, the same bytes each time, with ids that survive the tokenizer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import mlx_lm
import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from eredu_conformance.crafted import CraftedCheckpoint, crafted_checkpoints, crafted_pair
from eredu_conformance.crafted.tokenizer import text_of

Written = Callable[[CraftedCheckpoint], Path]


@pytest.mark.parametrize("checkpoint", crafted_checkpoints(), ids=lambda c: c.name)
def test_text_and_ids_correspond(checkpoint: CraftedCheckpoint, written: Written) -> None:
    tokenizer = Tokenizer.from_file(str(written(checkpoint) / "tokenizer.json"))
    ids = list(range(checkpoint.vocabulary))
    assert tokenizer.get_vocab_size() == checkpoint.vocabulary
    assert tokenizer.encode(text_of(tuple(ids))).ids == ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text_of(tuple(ids))


def test_foreign_text_makes_no_token(written: Written) -> None:
    tokenizer = Tokenizer.from_file(str(written(crafted_pair("table").target) / "tokenizer.json"))
    assert tokenizer.encode("a, é\nd z").ids == [0, 3]


def test_mlx_lm_loads_tokenizer_and_eos(written: Written) -> None:
    _, tokenizer = mlx_lm.load(str(written(crafted_pair("table-eos").target)))
    assert tokenizer.eos_token_ids == {4}
    assert tokenizer.decode([0, 4, 1], skip_special_tokens=True) == "ab"
    message = [{"role": "user", "content": "abcd"}]
    assert tokenizer.apply_chat_template(message, tokenize=False) == "abcd"
    _, endless = mlx_lm.load(str(written(crafted_pair("table").target)))
    assert endless.eos_token_ids == set()


@pytest.mark.parametrize("name", ["table-eos", "position", "window-16"])
def test_bytes_depend_on_description_alone(name: str, tmp_path: Path) -> None:
    first = crafted_pair(name).write(tmp_path / "first")
    again = crafted_pair(name).write(tmp_path / "again")
    for left, right in zip(first, again, strict=True):
        files = sorted(path.name for path in left.iterdir())
        assert files == ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
        assert all((left / file).read_bytes() == (right / file).read_bytes() for file in files)


@pytest.mark.parametrize("checkpoint", crafted_checkpoints(), ids=lambda c: c.name)
def test_tensors_fit_the_config(checkpoint: CraftedCheckpoint, written: Written) -> None:
    directory = written(checkpoint)
    config = json.loads((directory / "config.json").read_text())
    tensors = load_file(directory / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {np.dtype(np.float32)}
    assert all(np.isfinite(tensor).all() for tensor in tensors.values())
    hidden, head_dim = config["hidden_size"], config["head_dim"]
    assert hidden % config["num_attention_heads"] == 0
    assert tensors["lm_head.weight"].shape == (config["vocab_size"], hidden)
    assert tensors["model.layers.0.self_attn.q_proj.weight"].shape == (config["num_attention_heads"] * head_dim, hidden)
    assert tensors["model.layers.0.mlp.down_proj.weight"].shape == (hidden, config["intermediate_size"])
    assert config["model_type"] == checkpoint.architecture.value
    assert config["max_position_embeddings"] == checkpoint.context_limit
    assert config.get("sliding_window") == checkpoint.window


def test_catalogue_covers_the_kinds() -> None:
    checkpoints = crafted_checkpoints()
    assert {c.architecture.value for c in checkpoints} == {"llama", "qwen3"}
    assert {c.window for c in checkpoints} == {None, 4, 6, 16}
    assert {c.vocabulary for c in checkpoints} >= {4, 64}
    assert len({c.name for c in checkpoints}) == len(checkpoints)
