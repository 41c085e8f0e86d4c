"""One checkpoint in many files: published, sharded, fp8, converted, quantised, head apart. The heads are the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from numpy.typing import NDArray

from eredu.checkpoints.inspection import inspect_checkpoint
from eredu.contract.capability import MtpCapability, MtpCheckpointKind
from eredu.contract.errors import CapabilityError, CheckpointError
from eredu.engine.checkpoint import load_checkpoint
from eredu.families.staged_heads import StagedHeads
from eredu_conformance.zoo import Damage, Parts, ZooMember, deepseek_v3, deepseek_v32, nemotron_h, write_damaged
from eredu_conformance.zoo.converting import CONVERSIONS, FOUR_BITS, write_converted, write_head
from eredu_conformance.zoo.writing import write_json

MEMBERS: dict[str, ZooMember] = {
    "deepseek-v3": deepseek_v3(2),
    "deepseek-v3.2": deepseek_v32(),
    "nemotron-h": nemotron_h(2),
}
TOKENS = mx.array([3, 1, 4, 1, 5, 9, 2, 6], dtype=mx.uint32)
ROWS = mx.array(np.random.default_rng(1).normal(size=(8, 64)).astype(np.float32))


@pytest.fixture(scope="module", params=list(MEMBERS))
def member(request: pytest.FixtureRequest) -> ZooMember:
    return MEMBERS[request.param]


@pytest.fixture(scope="module")
def published(member: ZooMember, tmp_path_factory: pytest.TempPathFactory) -> StagedHeads:
    return load(member.write(tmp_path_factory.mktemp("published")))


def load(directory: Path, **options: Any) -> StagedHeads:
    heads = load_checkpoint(directory, tokenizer=None, **options).heads
    assert isinstance(heads, StagedHeads)
    return heads


def weights(heads: StagedHeads) -> list[dict[str, NDArray[Any]]]:
    named = [dict(tree_flatten(module.parameters())) for module in heads.modules]
    return [{name: np.array(array.astype(mx.float32)) for name, array in stage.items()} for stage in named]


def logits(heads: StagedHeads) -> NDArray[np.float32]:
    """Logits of every stage, each fed by the one before it."""
    rows, made = ROWS, []
    for number, cache in enumerate(heads.new_caches()):
        rows = heads.step(number, rows, TOKENS, cache)
        made.append(np.array(heads.logits(number, rows)))
    return np.concatenate(made)


def assert_same(ours: StagedHeads, theirs: StagedHeads) -> None:
    for mine, other in zip(weights(ours), weights(theirs), strict=True):
        assert mine.keys() == other.keys()
        assert all(mine[name].tobytes() == other[name].tobytes() for name in mine)
    np.testing.assert_array_equal(logits(ours), logits(theirs))


@pytest.mark.parametrize("parts", [Parts.SHARDED, Parts.HEAD_APART])
def test_files_do_not_matter(member: ZooMember, published: StagedHeads, tmp_path: Path, parts: Parts) -> None:
    assert_same(load(member.write(tmp_path, parts=parts)), published)


def test_conversion_changes_no_bit(member: ZooMember, published: StagedHeads, tmp_path: Path) -> None:
    assert_same(load(write_converted(member, tmp_path)), published)


@pytest.mark.parametrize("layout", ["mlx", "pt"])
def test_a_head_beside_a_target_without_one(
    member: ZooMember, published: StagedHeads, tmp_path: Path, layout: str
) -> None:
    target = replace(member, head={}).write(tmp_path / "target")
    assert load_checkpoint(target, tokenizer=None).heads is None
    assert_same(load(target, head=write_head(member, tmp_path / "head", layout=layout)), published)


@pytest.mark.parametrize("name", ["4-bit", "8-bit", "mixed"])
def test_packed_heads_stay_packed_until_cast(
    member: ZooMember, published: StagedHeads, tmp_path: Path, name: str
) -> None:
    directory = write_converted(member, tmp_path, CONVERSIONS[name])
    packed, cast = load(directory), load(directory, dtype="float32")
    assert all("scales" in stage.module.eh_proj for stage in packed.stages)
    assert not any(part.endswith(".scales") for stage in weights(cast) for part in stage)
    np.testing.assert_allclose(logits(packed), logits(cast), atol=2e-3, rtol=2e-3)
    if name == "8-bit":
        # Not everywhere: rounded scores may choose another expert.
        assert np.median(np.abs(logits(cast) - logits(published))) < 0.05


def test_a_packed_embedding_of_the_target_is_the_stages_own_too(tmp_path: Path) -> None:
    packed = load(write_converted(MEMBERS["deepseek-v3"], tmp_path, FOUR_BITS))
    assert [stage.own for stage in packed.stages] == [(), ()], (
        "the copies in the extra layer are the target's, bit by bit"
    )


def test_copies_are_shared_and_other_embeddings_are_kept(tmp_path: Path) -> None:
    member = MEMBERS["deepseek-v3"]
    assert all(not stage.own for stage in load(member.write(tmp_path / "copies")).stages)
    head = dict(member.head)
    head["model.layers.4.embed_tokens.weight"] = head["model.layers.4.embed_tokens.weight"][::-1].copy()
    other = load(replace(member, head=head).write(tmp_path / "other"))
    assert [len(stage.own) for stage in other.stages] == [0, 1]
    assert isinstance(other.stages[1].own[0].inner, nn.Embedding)
    lean = {
        name: array for name, array in head.items() if "embed_tokens" not in name and "shared_head.head" not in name
    }
    assert_same(load(replace(member, head=lean).write(tmp_path / "lean")), load(tmp_path / "copies"))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_casting_leaves_what_routing_orders_by(member: ZooMember, tmp_path: Path, dtype: str) -> None:
    checkpoint = load_checkpoint(member.write(tmp_path), tokenizer=None, dtype=dtype)
    assert checkpoint.heads is not None
    target: Any = checkpoint.model
    for module in (target, *checkpoint.heads.modules):
        named: Mapping[str, mx.array] = dict(tree_flatten(module.parameters()))
        biases = {name: array.dtype for name, array in named.items() if name.endswith("e_score_correction_bias")}
        assert not biases or set(biases.values()) == {mx.float32}
        assert any(array.dtype == getattr(mx, dtype) for array in named.values())


# ---- fp8 ---------------------------------------------------------------------------------------------------------


def write_fp8(member: ZooMember, directory: Path) -> dict[str, NDArray[np.float32]]:
    """Write projections as DeepSeek publishes them, e4m3 in blocks of 128 by 128; return what the file stands for."""
    directory.mkdir()
    stored: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
    meant: dict[str, NDArray[np.float32]] = {}
    for name, array in member.tensors.items():
        packed = array.ndim == 2 and "proj" in name and "eh_proj" not in name
        if not packed:
            stored[name], meant[name] = ("F32", array.shape, np.ascontiguousarray(array).tobytes()), array
            continue
        blocks = (-(-array.shape[0] // 128), -(-array.shape[1] // 128))
        scale = np.random.default_rng(len(name)).uniform(0.004, 0.006, blocks).astype(np.float32)
        spread = np.repeat(np.repeat(scale, 128, 0), 128, 1)[: array.shape[0], : array.shape[1]]
        bits = mx.to_fp8(mx.array(array / spread))
        stored[name] = ("F8_E4M3", array.shape, np.array(bits).tobytes())
        stored[f"{name}_scale_inv"] = ("F32", blocks, scale.tobytes())
        values = mx.from_fp8(bits, dtype=mx.bfloat16).astype(mx.float32) * mx.array(spread)
        meant[name] = np.array(values.astype(mx.bfloat16).astype(mx.float32))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, (dtype, shape, raw) in stored.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, start + len(raw)]}
        start += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(raw for _, _, raw in stored.values())
    (directory / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    settings = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    write_json(directory / "config.json", {**member.config, "quantization_config": settings})
    return meant


@pytest.mark.parametrize("name", ["deepseek-v3", "deepseek-v3.2"])
def test_blocks_of_fp8_stand_for_their_values(tmp_path: Path, name: str) -> None:
    member = MEMBERS[name]
    meant = write_fp8(member, tmp_path / "fp8")
    body = {tensor: meant[tensor] for tensor in member.body}
    head = {tensor: meant[tensor] for tensor in member.head}
    written = replace(member, body=body, head=head).write(tmp_path / "meant")
    ours, theirs = load(tmp_path / "fp8", dtype="float32"), load(written, dtype="float32")
    assert_same(ours, theirs)
    assert np.abs(logits(ours) - logits(load(member.write(tmp_path / "exact")))).max() > 1e-3


# ---- what does not fit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("victim", ["eh_proj", "experts.3.up_proj", "norm.weight", "o_proj"])
def test_a_missing_tensor_is_named(member: ZooMember, tmp_path: Path, victim: str) -> None:
    gone = next(name for name in member.head if victim in name)
    head = {name: array for name, array in member.head.items() if name != gone}
    with pytest.raises(CheckpointError, match=victim.rpartition("experts.")[2]):
        load(replace(member, head=head).write(tmp_path))


@pytest.mark.parametrize(
    "damage",
    [Damage.HEAD_HALF_ABSENT, Damage.HEAD_ZERO, Damage.HEAD_CONSTANT, Damage.HEAD_NAN, Damage.HEAD_WRONG_SHAPE],
)
def test_damaged_heads_are_refused(member: ZooMember, tmp_path: Path, damage: Damage) -> None:
    with pytest.raises(CheckpointError, match="prediction head"):
        load_checkpoint(write_damaged(member, tmp_path, damage), tokenizer=None)


def test_heads_that_are_claimed_alone_are_none(member: ZooMember, tmp_path: Path) -> None:
    assert load_checkpoint(write_damaged(member, tmp_path, Damage.HEAD_ABSENT), tokenizer=None).heads is None


def test_a_recurrent_head_is_refused(tmp_path: Path) -> None:
    member = nemotron_h(1)
    config = {**member.config, "mtp_hybrid_override_pattern": "ME"}
    with pytest.raises(CapabilityError, match="recurrent"):
        load(replace(member, config=config).write(tmp_path))


@pytest.mark.parametrize("pattern", ["", "*X", 7])
def test_a_strange_pattern_is_refused(tmp_path: Path, pattern: Any) -> None:
    member = nemotron_h(1)
    config = {**member.config, "mtp_hybrid_override_pattern": pattern}
    with pytest.raises(CheckpointError, match=r"pattern|missing"):
        load(replace(member, config=config).write(tmp_path))


def test_a_pattern_in_words_is_a_pattern(tmp_path: Path) -> None:
    """NVIDIA's own configurations name the blocks; Transformers 5 renamed them."""
    member = nemotron_h(2)
    config = {name: value for name, value in member.config.items() if name != "mtp_hybrid_override_pattern"}
    expected = load(member.write(tmp_path / "letters"))
    for number, words in enumerate((["attention", "moe"], ["full_attention", "moe"])):
        written = replace(member, config={**config, "mtp_layers_block_type": words}).write(tmp_path / str(number))
        assert_same(load(written), expected)
    assert_same(load(replace(member, config=config).write(tmp_path / "unnamed")), expected)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("deepseek-v3", {"scoring_func": "softmax"}),
        ("deepseek-v3", {"topk_method": "greedy"}),
        ("deepseek-v3.2", {"rope_interleave": False}),
        ("deepseek-v3", {"hidden_act": "gelu"}),
        ("nemotron-h", {"mlp_hidden_act": "silu"}),
        ("nemotron-h", {"attention_bias": True}),
    ],
    ids=str,
)
def test_settings_that_the_decoder_passes_over_are_refused(tmp_path: Path, name: str, setting: dict[str, Any]) -> None:
    member = MEMBERS[name]
    directory = replace(member, config={**member.config, **setting}).write(tmp_path)
    with pytest.raises(CapabilityError, match=next(iter(setting))):
        load_checkpoint(directory, tokenizer=None)
    report = inspect_checkpoint(directory).heads
    assert report.capability == MtpCapability.unsupported(MtpCheckpointKind.EMBEDDED, member.model_type)
    assert next(iter(setting)) in report.reason
