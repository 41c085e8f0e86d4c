"""Where the time of a round goes, and the random checkpoints of published shapes on which that is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors import safe_open

from eredu.checkpoints.names import resolve_checkpoint
from eredu.commands.pair import load_pair
from eredu.contract.options import GenerationOptions, SamplingOptions
from eredu.model import Model
from eredu_benchmarks.checkpoint_shape import SHAPES, QwenShape
from eredu_benchmarks.random_checkpoint import ShardWriter, weights, write_random
from eredu_benchmarks.rounds import measure_rounds, run_once, settle


def small_shape(vocabulary: int, like: dict[str, int]) -> QwenShape:
    """The shape of a published config of the family."""
    return QwenShape(
        vocabulary=vocabulary,
        hidden=like["hidden_size"],
        layers=like["num_hidden_layers"],
        mlp=like["intermediate_size"],
        heads=like["num_attention_heads"],
        keys=like["num_key_value_heads"],
        width=like["head_dim"],
        delta_keys=like["linear_num_key_heads"],
        delta_values=like["linear_num_value_heads"],
        delta_width=like["linear_key_head_dim"],
    )


def test_names_and_shapes_are_those_of_the_family() -> None:
    """The trained checkpoint has the same tensors, but for the output projection, which it ties."""
    path = resolve_checkpoint("tiny-qwen3.5")
    config = json.loads((path / "config.json").read_text())["text_config"]
    made = dict(small_shape(config["vocab_size"], config).tensors())
    del made["lm_head.weight"]
    with safe_open(path / "model.safetensors", framework="numpy") as file:
        assert made == {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def test_the_published_size_is_its_name() -> None:
    count = 0
    for _, shape in SHAPES["9b"].tensors():
        size = 1
        for length in shape:
            size *= length
        count += size
    assert count == pytest.approx(9e9, rel=0.03)


def test_shards_have_an_index_of_everything(tmp_path: Path) -> None:
    total = ShardWriter(tmp_path, limit=1 << 20).write(weights(SHAPES["tiny"], seed=1))
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == total
    assert len(set(index["weight_map"].values())) > 2
    held: dict[str, str] = {}
    for name in set(index["weight_map"].values()):
        with safe_open(tmp_path / name, framework="numpy") as file:
            held |= dict.fromkeys(file.keys(), name)
    assert held == index["weight_map"]
    assert set(held) == {name for name, _ in SHAPES["tiny"].tensors()}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("random")
    write_random(SHAPES["tiny"], folder)
    return load_pair(str(folder), None, dtype="float32", placement="one-stream")


@pytest.mark.parametrize("proposals", [0, 2])
def test_shares_of_a_round(pair: Model, proposals: int) -> None:
    options = GenerationOptions(
        max_tokens=12, max_proposals=proposals, sampling=SamplingOptions(temperature=1.0), seed=1, eos_ids=frozenset()
    )
    found = measure_rounds(pair, (1, 5, 9, 20), options, repeats=1)
    assert 0 < found.scheduler_share < 1
    assert found.rounds <= 12
    assert sum(found.calls_s.values()) == pytest.approx(found.round_s * (1 - found.scheduler_share))
    assert (found.rollback_share is None) == (proposals == 0)
    assert (found.calls_s["draft"] > 1e-4) == (proposals > 0)


def test_watching_changes_no_token(pair: Model) -> None:
    options = GenerationOptions(max_tokens=12, seed=1, sampling=SamplingOptions(temperature=1.0), eos_ids=frozenset())
    rounds = {run_once(pair, (1, 5, 9, 20), options, wait).rounds for wait in (None, settle)}
    assert len(rounds) == 1
