"""One fused head in many files: published, sharded, converted, packed, apart, and tampered with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from eredu.checkpoints.directory import OpenedDirectory
from eredu.checkpoints.inspection import inspect_checkpoint
from eredu.checkpoints.layout import Layout
from eredu.checkpoints.wiring import AFTER_NORMS, Wiring, stated_wiring
from eredu.contract.errors import CapabilityError, CheckpointError
from eredu.engine.checkpoint import load_checkpoint
from eredu.families.filling import parameters_of
from eredu.families.fused_heads import FusedHeads
from eredu.families.head_tensors import read_head_tensors
from eredu.families.qwen.heads import stack_experts
from eredu_conformance.zoo import Affine, Damage, Parts, ZooMember, write_damaged, zoo_member
from eredu_conformance.zoo.converting import CONVERSIONS, Conversion, HeadPlace, write_converted, write_head

MEMBERS = {name: zoo_member(name) for name in ("qwen3.5", "qwen3.5-moe", "qwen3-next")}
TOKENS = mx.array([3, 1, 4, 1, 5, 9, 2, 6], dtype=mx.uint32)
ROWS = mx.array(np.random.default_rng(1).normal(size=(8, 64)).astype(np.float32))
Weights = dict[str, NDArray[Any]]


@pytest.fixture(scope="module", params=list(MEMBERS))
def member(request: pytest.FixtureRequest) -> ZooMember:
    return MEMBERS[request.param]


@pytest.fixture(scope="module")
def published(member: ZooMember, tmp_path_factory: pytest.TempPathFactory) -> FusedHeads:
    return load(member.write(tmp_path_factory.mktemp("published")))


def load(directory: Path, **options: Any) -> FusedHeads:
    heads = load_checkpoint(directory, tokenizer=None, **options).heads
    assert isinstance(heads, FusedHeads)
    return heads


def weights(heads: FusedHeads) -> Weights:
    return {name: np.array(array.astype(mx.float32)) for name, array in parameters_of(heads.module).items()}


def logits(heads: FusedHeads) -> NDArray[np.float32]:
    (cache,) = heads.new_caches()
    return np.array(heads.logits(0, heads.step(0, ROWS, TOKENS, cache)))


def assert_same(ours: FusedHeads, theirs: FusedHeads) -> None:
    mine, other = weights(ours), weights(theirs)
    assert mine.keys() == other.keys()
    assert all(mine[name].tobytes() == other[name].tobytes() for name in mine)
    np.testing.assert_array_equal(logits(ours), logits(theirs))


# ---- layouts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [Parts.SHARDED, Parts.HEAD_APART])
def test_files_do_not_matter(member: ZooMember, published: FusedHeads, tmp_path: Path, parts: Parts) -> None:
    assert_same(load(member.write(tmp_path, parts=parts)), published)


@pytest.mark.parametrize("place", [HeadPlace.KEPT, HeadPlace.DENSE])
def test_conversion_changes_no_bit(member: ZooMember, published: FusedHeads, tmp_path: Path, place: HeadPlace) -> None:
    assert_same(load(write_converted(member, tmp_path, Conversion(head=place))), published)


@pytest.mark.parametrize("layout", ["mlx", "pt"])
def test_a_head_beside_a_target_without_one(
    member: ZooMember, published: FusedHeads, tmp_path: Path, layout: str
) -> None:
    target = write_converted(member, tmp_path / "target", Conversion(head=HeadPlace.DROPPED))
    assert load_checkpoint(target, tokenizer=None).heads is None
    assert_same(load(target, head=write_head(member, tmp_path / "head", layout=layout)), published)


@pytest.mark.parametrize("dtype", [np.float32, "bfloat16"])
def test_norms_are_shifted_once_in_either_layout_and_in_any_type(tmp_path: Path, dtype: Any) -> None:
    """A published bfloat16 file and what a converter makes of it, which adds the one in bfloat16 too."""
    member = MEMBERS["qwen3.5"]
    cast = mx.bfloat16 if dtype == "bfloat16" else mx.float32
    head = {name: mx.array(array).astype(cast) for name, array in member.head.items()}
    shift = {name: array + 1 if array.ndim == 1 else array for name, array in head.items()}
    target = replace(member, head={}).write(tmp_path / "target")
    loaded = {}
    for layout, tensors in (("pt", head), ("mlx", shift)):
        directory = tmp_path / layout
        directory.mkdir()
        mx.save_safetensors(str(directory / "model.safetensors"), tensors, metadata={"format": layout})
        (directory / "config.json").write_text(json.dumps(dict(member.config)))
        loaded[layout] = load(target, head=directory)
    assert_same(loaded["pt"], loaded["mlx"])
    norm = parameters_of(loaded["pt"].module)["norm.weight"]
    assert norm.dtype == cast
    assert abs(float(norm.mean()) - 1) < 0.3


def test_sanitising_twice_is_sanitising_once(member: ZooMember, tmp_path: Path) -> None:
    tensors = read_head_tensors(OpenedDirectory(member.write(tmp_path)))
    once = tensors.shifted()
    twice = once.shifted()
    assert set(tensors.layouts.values()) == {Layout.PUBLISHED}
    assert set(once.layouts.values()) == {Layout.CONVERTED}
    shifted = {name for name, array in once.arrays.items() if not mx.array_equal(array, tensors.arrays[name])}
    assert shifted == {name for name, array in member.head.items() if array.ndim == 1}
    for name, array in once.arrays.items():
        assert mx.array_equal(array, twice.arrays[name])
    stacked = stack_experts(once.arrays)
    again = stack_experts(stacked)
    assert stacked.keys() == again.keys()
    assert all(mx.array_equal(stacked[name], again[name]) for name in stacked)


def test_a_written_head_is_read_back_bit_for_bit(member: ZooMember, published: FusedHeads, tmp_path: Path) -> None:
    """What is in memory, saved as MLX saves it, is the head again: loading a second time shifts nothing."""
    target = replace(member, head={}).write(tmp_path / "target")
    directory = tmp_path / "head"
    directory.mkdir()
    arrays = {f"mtp.{name}": array for name, array in parameters_of(published.module).items()}
    mx.save_safetensors(str(directory / "model.safetensors"), arrays, metadata={"format": "mlx"})
    config = {
        "model_type": f"{member.model_type}_mtp",
        "text_config": dict(member.config.get("text_config", member.config)),
    }
    (directory / "config.json").write_text(json.dumps(config))
    assert_same(load(target, head=directory), published)


@pytest.mark.parametrize("name", ["4-bit", "8-bit", "mixed"])
def test_packed_heads_stay_packed_until_cast(
    member: ZooMember, published: FusedHeads, tmp_path: Path, name: str
) -> None:
    directory = write_converted(member, tmp_path, CONVERSIONS[name])
    packed, cast = load(directory), load(directory, dtype="float32")
    assert any(part.endswith(".scales") for part in weights(packed))
    assert "fc.scales" not in weights(packed)
    assert not any(part.endswith(".scales") for part in weights(cast))
    np.testing.assert_allclose(logits(packed), logits(cast), atol=2e-3, rtol=2e-3)
    if name == "8-bit":
        assert np.median(np.abs(logits(cast) - logits(published))) < 0.05


def test_a_packed_head_beside_a_target(member: ZooMember, published: FusedHeads, tmp_path: Path) -> None:
    target = replace(member, head={}).write(tmp_path / "target")
    heads = load(target, head=write_head(member, tmp_path / "head", quantisation=Affine(8)))
    assert any(part.endswith(".scales") for part in weights(heads))
    assert np.median(np.abs(logits(heads) - logits(published))) < 0.05


def test_heads_can_be_left_aside(member: ZooMember, tmp_path: Path) -> None:
    assert load_checkpoint(member.write(tmp_path), tokenizer=None, with_heads=False).heads is None


# ---- damage ------------------------------------------------------------------------------------------------------

HEADERS_SHOW = {
    Damage.HEAD_HALF_ABSENT: "tensors [0-9]+ are missing, such as mtp",
    Damage.TRUNCATED: "is cut short",
    Damage.INDEX_MISSING_FILE: "lacks 1 of the 3 weight files",
    Damage.INDEX_OUTSIDE_FILE: "expected a .safetensors file inside",
}
WEIGHTS_SHOW = {
    Damage.HEAD_ZERO: "never trained",
    Damage.HEAD_CONSTANT: "never trained",
    Damage.HEAD_NAN: "NaN or infinity in fc.weight",
    Damage.HEAD_WRONG_SHAPE: "another shape for fc.weight",
}


@pytest.mark.parametrize("damage", HEADERS_SHOW)
def test_headers_show_it(member: ZooMember, tmp_path: Path, damage: Damage) -> None:
    directory = write_damaged(member, tmp_path / "damaged", damage)
    for read in (inspect_checkpoint, load):
        with pytest.raises(CheckpointError, match=HEADERS_SHOW[damage]):
            read(directory)


@pytest.mark.parametrize("damage", WEIGHTS_SHOW)
def test_weights_show_it(member: ZooMember, tmp_path: Path, damage: Damage) -> None:
    directory = write_damaged(member, tmp_path, damage)
    with pytest.raises(CheckpointError, match=WEIGHTS_SHOW[damage]):
        load(directory)
    assert load_checkpoint(directory, tokenizer=None, with_heads=False).heads is None


def test_a_claim_alone_is_unavailable(member: ZooMember, tmp_path: Path) -> None:
    directory = write_damaged(member, tmp_path, Damage.HEAD_ABSENT)
    report = inspect_checkpoint(directory).heads
    assert (str(report.capability.state), report.claimed, report.usable_depth) == ("unavailable", 1, 0)
    assert "ships none of their tensors" in report.reason
    assert load_checkpoint(directory, tokenizer=None).heads is None


def rewrite(directory: Path, change: Callable[[Weights], None], metadata: dict[str, str]) -> Path:
    """Change the one weight file of a directory."""
    path = directory / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, path, metadata=metadata)
    return directory


def keep(tensors: Weights) -> None:
    """Change nothing."""


def transpose(tensors: Weights) -> None:
    """Bring the convolutions into MLX's order, and nothing else."""
    for name in tensors:
        if name.endswith("conv1d.weight"):
            tensors[name] = np.moveaxis(tensors[name], 2, 1)


@pytest.mark.parametrize(
    ("change", "metadata", "said"),
    [
        (keep, {"format": "mlx"}, "its format is 'mlx', so .* has the published axis order"),
        (transpose, {"format": "pt"}, "has MLX's axis order, so .* its format is 'pt'"),
    ],
    ids=["called-converted", "converted-in-part"],
)
def test_files_that_would_be_shifted_twice_or_never_are_refused(
    member: ZooMember, tmp_path: Path, change: Callable[[Weights], None], metadata: dict[str, str], said: str
) -> None:
    directory = rewrite(member.write(tmp_path), change, metadata)
    for read in (inspect_checkpoint, load):
        with pytest.raises(CheckpointError, match=f"contradicts itself: .*{said}.* shifted twice or never"):
            read(directory)


def test_a_head_file_of_its_own_may_be_of_another_layout(
    member: ZooMember, published: FusedHeads, tmp_path: Path
) -> None:
    """The makers' head shard put beside a converted target: each file is read by its own facts."""
    directory = write_converted(member, tmp_path, Conversion(head=HeadPlace.DROPPED))
    save_file(dict(member.head), directory / "model-mtp.safetensors", metadata={"format": "pt"})
    assert_same(load(directory), published)


def test_one_missing_expert_is_named(tmp_path: Path) -> None:
    member = MEMBERS["qwen3-next"]
    head = {name: array for name, array in member.head.items() if ".experts.2.up_proj" not in name}
    with pytest.raises(CheckpointError, match=r"lacks layers.0.mlp.experts.2.up_proj.weight"):
        load(replace(member, head=head).write(tmp_path))


def test_heads_of_another_target_are_refused(member: ZooMember, tmp_path: Path) -> None:
    head = {name: array[..., :-1] if name == "mtp.fc.weight" else array for name, array in member.head.items()}
    target = replace(member, head={}).write(tmp_path / "target")
    with pytest.raises(CheckpointError, match=r"another shape for fc\.weight"):
        load(target, head=write_head(replace(member, head=head), tmp_path / "head", layout="pt"))


def test_a_directory_without_heads_is_refused(member: ZooMember, tmp_path: Path) -> None:
    other = zoo_member("llama").write(tmp_path / "llama")
    with pytest.raises(CheckpointError, match="holds no tensor of a prediction head for llama"):
        load(member.write(tmp_path / "target"), head=other)


# ---- wiring ------------------------------------------------------------------------------------------------------


def test_the_default_is_what_published_heads_were_trained_on(published: FusedHeads) -> None:
    assert published.wiring == AFTER_NORMS
    assert not published.traits.settled
    assert len(published.variants()) == 8
    assert next(iter(published.variants())) == str(AFTER_NORMS)


def test_a_checkpoint_may_state_its_wiring_and_depth(tmp_path: Path) -> None:
    member = MEMBERS["qwen3.5"]
    words = {"hidden": "before-norm", "first": "hidden", "chain": "after-norm"}
    stated = replace(member, config={**member.config, "wiring": words, "max_proposals": 4})
    heads = load(stated.write(tmp_path))
    assert heads.wiring == Wiring(hidden_first=True, chain_after_norm=True)
    assert (heads.traits.settled, heads.traits.max_proposals) == (True, 4)
    assert inspect_checkpoint(tmp_path).heads.usable_depth == 4
    assert stated_wiring(read_head_tensors(OpenedDirectory(tmp_path)).config) == heads.wiring


@pytest.mark.parametrize("words", [3, {}, {"hidden": "before-norm"}, {"hidden": "x", "first": "hidden", "chain": "x"}])
def test_a_strange_wiring_is_refused(tmp_path: Path, words: Any) -> None:
    member = MEMBERS["qwen3.5"]
    with pytest.raises(CheckpointError, match=r"gives wiring as .*; expected an object with hidden: before-norm or"):
        load(replace(member, config={**member.config, "wiring": words}).write(tmp_path))


def test_several_layers_are_several_stages(tmp_path: Path) -> None:
    member = MEMBERS["qwen3.5"]
    second = {
        name.replace("layers.0", "layers.1"): array[::-1].copy()
        for name, array in member.head.items()
        if "layers.0" in name
    }
    text = {**member.config["text_config"], "mtp_num_hidden_layers": 2}
    both = replace(member, config={**member.config, "text_config": text}, head={**member.head, **second})
    heads = load(both.write(tmp_path))
    assert (heads.traits.stages, heads.traits.max_proposals) == (2, 2)
    outputs = [np.array(heads.step(stage, ROWS, TOKENS, heads.new_caches()[stage])) for stage in (0, 1)]
    assert not np.allclose(outputs[0], outputs[1])


def test_depth_ends_where_heads_cannot_iterate(published: FusedHeads) -> None:
    rigid = replace(published, traits=replace(published.traits, iterable=False))
    with pytest.raises(CapabilityError, match="3 proposals a round were asked of 1 prediction heads"):
        rigid.capped(3)
