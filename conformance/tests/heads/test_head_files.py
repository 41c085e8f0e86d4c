"""One member's heads in many files: published, sharded, fp8, converted, packed, apart. The heads are the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from eredu.checkpoints.directory import OpenedDirectory
from eredu.checkpoints.layout import Layout
from eredu.checkpoints.opening import open_checkpoint
from eredu.checkpoints.wiring import AFTER_NORMS, Wiring, stated_wiring
from eredu.contract.errors import CapabilityError, CheckpointError
from eredu.engine.checkpoint import LoadedCheckpoint, load_checkpoint
from eredu.families.filling import parameters_of
from eredu.families.head_tensors import read_head_tensors
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.qwen.heads import stack_experts
from eredu_conformance.zoo import MEMBERS, Affine, Parts, Precision, ZooMember, nemotron_h, rounded, zoo_member
from eredu_conformance.zoo.converting import (
    CONVERSIONS,
    FOUR_BITS,
    Conversion,
    HeadPlace,
    write_converted,
    write_head,
)

QWEN, DEEPSEEK = zoo_member("qwen3.5"), zoo_member("deepseek-v3+two-heads")
OFFSETS = [name for name in MEMBERS if zoo_member(name).offset_norms]
"""Members whose norms are published as offsets from one."""
BEFORE_NORMS = {"ernie-4.5", "step-3.5"}
"""Members whose heads read what lies before the norms."""
TOKENS = mx.array([3, 1, 4, 1, 5, 9, 2, 6], dtype=mx.uint32)
ROWS = mx.array(np.random.default_rng(1).normal(size=(8, 64)).astype(np.float32))


@pytest.fixture(scope="module")
def published(checkpoint: LoadedCheckpoint) -> PredictionHeads:
    assert isinstance(checkpoint.heads, PredictionHeads)
    return checkpoint.heads


def load(directory: Path, **options: Any) -> PredictionHeads:
    heads = load_checkpoint(directory, tokenizer=None, **options).heads
    assert isinstance(heads, PredictionHeads)
    return heads


def weights(heads: PredictionHeads) -> list[dict[str, NDArray[Any]]]:
    named = [parameters_of(module) for module in heads.modules]
    return [{name: np.array(array.astype(mx.float32)) for name, array in module.items()} for module in named]


def logits(heads: PredictionHeads) -> NDArray[np.float32]:
    """Logits of every stage, each fed by the one before it."""
    rows, made = ROWS, []
    for number, cache in enumerate(heads.new_caches()):
        rows = heads.step(number, rows, TOKENS, cache)
        made.append(np.array(heads.logits(number, rows)))
    return np.concatenate(made)


def assert_same(ours: PredictionHeads, theirs: PredictionHeads) -> None:
    """Bit for bit: weights, and what they compute."""
    for mine, other in zip(weights(ours), weights(theirs), strict=True):
        assert mine.keys() == other.keys()
        assert all(mine[name].tobytes() == other[name].tobytes() for name in mine)
    np.testing.assert_array_equal(logits(ours), logits(theirs))


# ---- layouts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [Parts.SHARDED, Parts.HEAD_APART])
def test_files_do_not_matter(member: ZooMember, published: PredictionHeads, tmp_path: Path, parts: Parts) -> None:
    assert_same(load(member.write(tmp_path, parts=parts)), published)


@pytest.mark.parametrize("place", [HeadPlace.KEPT, HeadPlace.DENSE])
def test_conversion_changes_no_bit(
    member: ZooMember, published: PredictionHeads, tmp_path: Path, place: HeadPlace
) -> None:
    assert_same(load(write_converted(member, tmp_path, Conversion(head=place))), published)


@pytest.mark.parametrize("layout", ["mlx", "pt"])
@pytest.mark.parametrize("converted", [False, True])
def test_a_head_beside_a_target_without_one(
    member: ZooMember, published: PredictionHeads, tmp_path: Path, layout: str, converted: bool
) -> None:
    if converted:
        target = write_converted(member, tmp_path / "target", Conversion(head=HeadPlace.DROPPED))
    else:
        target = replace(member, head={}).write(tmp_path / "target")
    assert load_checkpoint(target, tokenizer=None).heads is None
    assert_same(load(target, head=write_head(member, tmp_path / "head", layout=layout)), published)


@pytest.mark.parametrize("name", ["4-bit", "8-bit", "mixed"])
def test_packed_heads_stay_packed_until_cast(
    member: ZooMember, published: PredictionHeads, tmp_path: Path, name: str
) -> None:
    directory = write_converted(member, tmp_path, CONVERSIONS[name])
    packed, cast = load(directory), load(directory, dtype="float32")
    assert all(any(part.endswith(".scales") for part in module) for module in weights(packed))
    assert not any(part.endswith(".scales") for module in weights(cast) for part in module)
    np.testing.assert_allclose(logits(packed), logits(cast), atol=2e-3, rtol=2e-3)
    if name == "8-bit":
        # Not everywhere: rounded scores may choose another expert.
        assert np.median(np.abs(logits(cast) - logits(published))) < 0.05


def test_a_fusion_that_was_left_dense_stays_dense(tmp_path: Path) -> None:
    assert "fc.scales" not in weights(load(write_converted(QWEN, tmp_path, FOUR_BITS)))[0]


def test_packed_heads_in_a_dense_trunk_need_no_settings(tmp_path: Path) -> None:
    """They are loaded by their layers' shapes, and inspection does not refuse what loading takes."""
    packed, plain = write_converted(QWEN, tmp_path / "packed", FOUR_BITS), write_converted(QWEN, tmp_path / "plain")
    heads = mx.load(str(packed / "model.safetensors"))
    body = mx.load(str(plain / "model.safetensors"))
    assert isinstance(heads, dict)
    assert isinstance(body, dict)
    mixed = {name: array for name, array in body.items() if "mtp" not in name}
    mixed |= {name: array for name, array in heads.items() if "mtp" in name}
    mx.save_safetensors(str(plain / "model.safetensors"), mixed, {"format": "mlx"})
    for mine, other in zip(weights(load(plain)), weights(load(packed)), strict=True):
        assert {name: array.tobytes() for name, array in mine.items()} == {n: a.tobytes() for n, a in other.items()}
    report = open_checkpoint(plain).report()
    assert report.heads.capability.is_ready
    assert report.parameter_count is None


def test_a_packed_head_beside_a_target(member: ZooMember, published: PredictionHeads, tmp_path: Path) -> None:
    target = replace(member, head={}).write(tmp_path / "target")
    heads = load(target, head=write_head(member, tmp_path / "head", quantisation=Affine(8)))
    assert any(part.endswith(".scales") for part in weights(heads)[0])
    assert np.median(np.abs(logits(heads) - logits(published))) < 0.05


def test_heads_can_be_left_aside(directory: Path) -> None:
    assert load_checkpoint(directory, tokenizer=None, with_heads=False).heads is None


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_casting_leaves_what_routing_orders_by(directory: Path, dtype: str) -> None:
    checkpoint = load_checkpoint(directory, tokenizer=None, dtype=dtype)
    assert checkpoint.heads is not None
    target: Any = checkpoint.model
    for module in (target, *checkpoint.heads.modules):
        named = parameters_of(module)
        biases = {name: array.dtype for name, array in named.items() if name.endswith("e_score_correction_bias")}
        assert not biases or set(biases.values()) == {mx.float32}
        assert any(array.dtype == getattr(mx, dtype) for array in named.values())


@pytest.mark.parametrize("name", ["deepseek-v3", "deepseek-v3.2"])
def test_blocks_of_fp8_stand_for_their_values(tmp_path: Path, name: str) -> None:
    member = zoo_member(name)
    meant = rounded(member.tensors, Precision.FP8)
    body, head = ({tensor: meant[tensor] for tensor in part} for part in (member.body, member.head))
    ours = load(member.write(tmp_path / "fp8", precision=Precision.FP8), dtype="float32")
    assert_same(ours, load(replace(member, body=body, head=head).write(tmp_path / "meant"), dtype="float32"))
    assert np.abs(logits(ours) - logits(load(member.write(tmp_path / "exact")))).max() > 1e-3


# ---- norms that are published as offsets from one ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_norms_are_shifted_once_in_either_layout_and_in_any_type(tmp_path: Path, dtype: mx.Dtype) -> None:
    """A published bfloat16 file and what a converter makes of it, which adds the one in bfloat16 too."""
    head = {name: mx.array(array).astype(dtype) for name, array in QWEN.head.items()}
    shifted = {name: array + 1 if array.ndim == 1 else array for name, array in head.items()}
    target = replace(QWEN, head={}).write(tmp_path / "target")
    loaded = {}
    for layout, tensors in (("pt", head), ("mlx", shifted)):
        directory = tmp_path / layout
        directory.mkdir()
        mx.save_safetensors(str(directory / "model.safetensors"), tensors, metadata={"format": layout})
        (directory / "config.json").write_text(json.dumps(dict(QWEN.config)))
        loaded[layout] = load(target, head=directory)
    assert_same(loaded["pt"], loaded["mlx"])
    norm = parameters_of(loaded["pt"].modules[0])["norm.weight"]
    assert norm.dtype == dtype
    assert abs(float(norm.mean()) - 1) < 0.3


@pytest.mark.parametrize("name", OFFSETS)
def test_sanitising_twice_is_sanitising_once(name: str, tmp_path: Path) -> None:
    member = zoo_member(name)
    tensors = read_head_tensors(OpenedDirectory(member.write(tmp_path)))
    once = tensors.shifted()
    twice = once.shifted()
    assert set(tensors.layouts.values()) == {Layout.PUBLISHED}
    assert set(once.layouts.values()) == {Layout.CONVERTED}
    moved = {name for name, array in once.arrays.items() if not mx.array_equal(array, tensors.arrays[name])}
    assert moved == {name.removeprefix("model.") for name, array in member.head.items() if array.ndim == 1}
    assert all(mx.array_equal(array, twice.arrays[name]) for name, array in once.arrays.items())
    stacked = stack_experts(once.arrays)
    again = stack_experts(stacked)
    assert stacked.keys() == again.keys()
    assert all(mx.array_equal(stacked[name], again[name]) for name in stacked)


@pytest.mark.parametrize("name", OFFSETS)
def test_a_written_head_is_read_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    """What is in memory, saved as MLX saves it, is the head again: loading a second time shifts nothing."""
    member = zoo_member(name)
    first = load(member.write(tmp_path / "published"))
    directory = tmp_path / "head"
    directory.mkdir()
    arrays = {
        module.stored_name(name): array for module in first.modules for name, array in parameters_of(module).items()
    }
    mx.save_safetensors(str(directory / "model.safetensors"), arrays, metadata={"format": "mlx"})
    text = dict(member.config.get("text_config", member.config))
    (directory / "config.json").write_text(json.dumps({"model_type": f"{member.model_type}_mtp", "text_config": text}))
    assert_same(load(replace(member, head={}).write(tmp_path / "target"), head=directory), first)


@pytest.mark.parametrize("name", OFFSETS)
def test_a_head_file_of_its_own_may_be_of_another_layout(name: str, tmp_path: Path) -> None:
    """The makers' head shard put beside a converted target: each file is read by its own facts."""
    member = zoo_member(name)
    directory = write_converted(member, tmp_path / "target", Conversion(head=HeadPlace.DROPPED))
    save_file(dict(member.head), directory / "model-mtp.safetensors", metadata={"format": "pt"})
    assert_same(load(directory), load(member.write(tmp_path / "published")))


# ---- wiring, stages, and what families have of their own ---------------------------------------------------------


def test_heads_are_wired_as_their_family_unless_the_checkpoint_says_otherwise(
    member: ZooMember, published: PredictionHeads, tmp_path: Path
) -> None:
    due = Wiring() if member.name in BEFORE_NORMS else replace(AFTER_NORMS, hidden_first=member.name == "mimo")
    assert published.wiring == due
    assert not published.traits.settled
    assert len(published.variants()) == 8
    assert next(iter(published.variants())) == str(published.wiring)
    words = {"hidden": "before-norm", "first": "hidden", "chain": "after-norm"}
    heads = load(replace(member, config={**member.config, "wiring": words}).write(tmp_path))
    assert heads.wiring == Wiring(hidden_first=True, chain_after_norm=True)
    assert heads.traits.settled
    assert stated_wiring(OpenedDirectory(tmp_path).config) == heads.wiring


def test_a_checkpoint_may_state_its_depth(tmp_path: Path) -> None:
    heads = load(replace(QWEN, config={**QWEN.config, "max_proposals": 4}).write(tmp_path))
    assert heads.traits.max_proposals == open_checkpoint(tmp_path).report().heads.usable_depth == 4


@pytest.mark.parametrize("words", [3, {}, {"hidden": "before-norm"}, {"hidden": "x", "first": "hidden", "chain": "x"}])
def test_a_strange_wiring_is_refused(tmp_path: Path, words: Any) -> None:
    with pytest.raises(CheckpointError, match=r"gives wiring as .*; expected an object with hidden: before-norm or"):
        load(replace(QWEN, config={**QWEN.config, "wiring": words}).write(tmp_path))


def test_several_layers_are_several_stages(tmp_path: Path) -> None:
    second = {
        name.replace("layers.0", "layers.1"): array[::-1].copy()
        for name, array in QWEN.head.items()
        if "layers.0" in name
    }
    text = {**QWEN.config["text_config"], "mtp_num_hidden_layers": 2}
    both = replace(QWEN, config={**QWEN.config, "text_config": text}, head={**QWEN.head, **second})
    heads = load(both.write(tmp_path))
    assert (heads.traits.stages, heads.traits.max_proposals, len(heads.modules)) == (2, 2, 1)
    outputs = [np.array(heads.step(stage, ROWS, TOKENS, heads.new_caches()[stage])) for stage in (0, 1)]
    assert not np.allclose(outputs[0], outputs[1])


def test_stages_make_the_proposals_of_their_number(member: ZooMember, published: PredictionHeads) -> None:
    """Each stage has tensors of its own."""
    assert published.traits.stages == member.heads
    if member.heads > 1:
        first, second = (
            np.array(published.step(number, ROWS, TOKENS, published.new_caches()[number])) for number in (0, 1)
        )
        assert not np.allclose(first, second)


def test_depth_ends_where_heads_cannot_iterate(published: PredictionHeads) -> None:
    stages = published.traits.stages
    rigid = replace(published, traits=replace(published.traits, iterable=False, max_proposals=stages))
    with pytest.raises(
        CapabilityError, match=f"{stages + 1} proposals a round were asked of {stages} prediction heads"
    ):
        rigid.capped(stages + 1)


def test_copies_of_the_target_are_shared_and_other_embeddings_are_kept(tmp_path: Path) -> None:
    copies = load(DEEPSEEK.write(tmp_path / "copies"))
    assert [stage.own for stage in copies.stages] == [(), ()]
    packed = load(write_converted(DEEPSEEK, tmp_path / "packed", FOUR_BITS))
    assert [stage.own for stage in packed.stages] == [(), ()], "packed copies are the target's, bit by bit"
    head = dict(DEEPSEEK.head)
    head["model.layers.4.embed_tokens.weight"] = head["model.layers.4.embed_tokens.weight"][::-1].copy()
    other = load(replace(DEEPSEEK, head=head).write(tmp_path / "other"))
    assert [len(stage.own) for stage in other.stages] == [0, 1]
    kept: Any = other.stages[1].own[0]
    assert isinstance(kept.inner, nn.Embedding)
    lean = {
        name: array for name, array in head.items() if "embed_tokens" not in name and "shared_head.head" not in name
    }
    assert_same(load(replace(DEEPSEEK, head=lean).write(tmp_path / "lean")), copies)


def test_a_pattern_in_words_is_a_pattern(tmp_path: Path) -> None:
    """NVIDIA's own configurations name the blocks; Transformers 5 renamed them."""
    member = nemotron_h(2)
    config = {name: value for name, value in member.config.items() if name != "mtp_hybrid_override_pattern"}
    expected = load(member.write(tmp_path / "letters"))
    for number, words in enumerate((["attention", "moe"], ["full_attention", "moe"])):
        written = replace(member, config={**config, "mtp_layers_block_type": words}).write(tmp_path / str(number))
        assert_same(load(written), expected)
    assert_same(load(replace(member, config=config).write(tmp_path / "unnamed")), expected)
