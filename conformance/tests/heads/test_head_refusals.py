"""Heads that must not run: damaged, incomplete, dead, another family's or model's, or contradicting themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from eredu.checkpoints.opening import open_checkpoint
from eredu.contract.capability import MtpCapability, MtpCheckpointKind
from eredu.contract.errors import CapabilityError, CheckpointError
from eredu.engine.checkpoint import load_checkpoint
from eredu.engine.load import load_target
from eredu.families.prediction_heads import PredictionHeads
from eredu_conformance.zoo import MEMBERS, Damage, ZooMember, nemotron_h, write_damaged, zoo_member
from eredu_conformance.zoo.converting import write_head

OFFSETS = [name for name in MEMBERS if zoo_member(name).offset_norms]
Weights = dict[str, NDArray[Any]]

HEADERS_SHOW = {
    Damage.HEAD_HALF_ABSENT: "tensors [0-9]+ are missing, such as ",
    Damage.TRUNCATED: "is cut short",
    Damage.INDEX_MISSING_FILE: "lacks 1 of the 3 weight files",
    Damage.INDEX_OUTSIDE_FILE: "expected a .safetensors file inside",
}
WEIGHTS_SHOW = {
    Damage.HEAD_ZERO: "never trained",
    Damage.HEAD_CONSTANT: "never trained",
    Damage.HEAD_NAN: r"NaN or infinity in (fc|eh_proj|input_proj|mtp_linear_proj)\.weight",
    Damage.HEAD_WRONG_SHAPE: r"another shape for (fc|eh_proj|input_proj|mtp_linear_proj)\.weight",
}


def load(directory: Path, **options: Any) -> PredictionHeads | None:
    return load_checkpoint(directory, tokenizer=None, **options).heads


@pytest.mark.parametrize("damage", HEADERS_SHOW)
def test_headers_show_it(member: ZooMember, tmp_path: Path, damage: Damage) -> None:
    directory = write_damaged(member, tmp_path / "damaged", damage)
    for read in (lambda path: open_checkpoint(path).report(), load):
        with pytest.raises(CheckpointError, match=HEADERS_SHOW[damage]):
            read(directory)


@pytest.mark.parametrize("damage", WEIGHTS_SHOW)
def test_weights_show_it(member: ZooMember, tmp_path: Path, damage: Damage) -> None:
    directory = write_damaged(member, tmp_path, damage)
    with pytest.raises(CheckpointError, match=f"prediction head in .*{WEIGHTS_SHOW[damage]}"):
        load(directory)
    assert load(directory, with_heads=False) is None


def test_a_claim_alone_is_unavailable(member: ZooMember, tmp_path: Path) -> None:
    directory = write_damaged(member, tmp_path, Damage.HEAD_ABSENT)
    report = open_checkpoint(directory).report().heads
    claimed = 0 if member.name in {"longcat", "qwen3-next"} else member.heads  # whose configs state no number
    assert (report.capability.state, report.claimed, report.usable_depth) == ("unavailable", claimed, 0)
    assert ("ships none of their tensors" if claimed else "claims no prediction head and holds none") in report.reason
    assert "--head" in report.reason
    assert load(directory) is None


def test_a_missing_tensor_is_named(member: ZooMember, tmp_path: Path) -> None:
    """Whichever it is: a norm, a projection, one expert of many; copies of the target's own are not missed."""
    own = [name for name in sorted(member.head) if "embed_tokens" not in name and "shared_head.head" not in name]
    chosen = {re.sub(r"\d+", "#", name): name for name in own}  # one of each kind, the last of its number
    for number, gone in enumerate(chosen.values()):
        head = {name: array for name, array in member.head.items() if name != gone}
        said = gone.removesuffix(".weight").rpartition(".")[2]
        said = "gate_proj|up_proj" if said == "gate_up_proj" else f"{said}|embed_q" if said == "kv_b_proj" else said
        with pytest.raises(CheckpointError, match=said):
            load(replace(member, head=head).write(tmp_path / str(number)))


def test_a_stray_tensor_is_named(member: ZooMember, tmp_path: Path) -> None:
    """A tensor that no parameter takes, such as another family's in the same layer, is never left aside."""
    assert member.head_decoder is not None
    norm = member.head_decoder(member, 0).fusion[1]
    stray = f"{norm.removesuffix('.weight').rpartition('.')[0]}.stray.weight"
    head = {**member.head, stray: member.head[norm]}
    with pytest.raises(CheckpointError, match=r"also holds .*stray\.weight"):
        load(replace(member, head=head).write(tmp_path))


def test_one_missing_expert_is_named(tmp_path: Path) -> None:
    member = zoo_member("qwen3-next")
    head = {name: array for name, array in member.head.items() if ".experts.2.up_proj" not in name}
    with pytest.raises(CheckpointError, match=r"lacks layers.0.mlp.experts.2.up_proj.weight"):
        load(replace(member, head=head).write(tmp_path))


def kinds_of(member: ZooMember) -> set[str]:
    """Names of its head tensors, whatever their layers' numbers and the form of the experts."""
    return {re.sub(r"\d+", "#", re.sub(r"\.experts\..*", ".experts", name)) for name in member.head}


def test_another_family_s_tensors_are_no_head(member: ZooMember, tmp_path: Path) -> None:
    """A config of one family over the head tensors of another: refused by name or not seen, never run."""
    others = [zoo_member(name) for name in MEMBERS if zoo_member(name).heads]
    strangers = [other for other in others if kinds_of(other) != kinds_of(member)]
    assert len(strangers) >= 3
    for stranger in strangers:
        directory = replace(member, head=dict(stranger.head)).write(tmp_path / stranger.name)
        try:
            heads = load(directory)
        except (CheckpointError, CapabilityError):
            continue
        assert heads is None
        assert not open_checkpoint(directory).report().heads.capability.is_ready


def test_heads_of_another_target_are_refused(member: ZooMember, tmp_path: Path) -> None:
    assert member.head_decoder is not None
    fusion = member.head_decoder(member, 0).fusion[2]
    head = {name: array[..., :-1] if name == fusion else array for name, array in member.head.items()}
    target = replace(member, head={}).write(tmp_path / "target")
    with pytest.raises(CheckpointError, match=r"another shape for (fc|eh_proj|input_proj|mtp_linear_proj)\.weight"):
        load(target, head=write_head(replace(member, head=head), tmp_path / "head", layout="pt"))


def test_a_directory_without_heads_is_refused(directory: Path, tmp_path: Path) -> None:
    other = zoo_member("llama").write(tmp_path)
    with pytest.raises(CheckpointError, match="holds no tensor of a prediction head for llama"):
        load(directory, head=other)


# ---- norms that are published as offsets from one ----------------------------------------------------------------


def keep(tensors: Weights) -> None:
    """Change nothing."""


def convert_in_part(tensors: Weights) -> None:
    """Bring the convolutions into MLX's order, give shared experts a converter's name, and change nothing else."""
    for name in list(tensors):
        if name.endswith("conv1d.weight"):
            tensors[name] = np.moveaxis(tensors[name], 2, 1)
        elif ".share_expert." in name:
            tensors[name.replace(".share_expert.", ".mlp.share_expert.")] = tensors.pop(name)


@pytest.mark.parametrize("name", OFFSETS)
@pytest.mark.parametrize(
    ("change", "metadata", "said"),
    [
        (keep, {"format": "mlx"}, "its format is 'mlx', so .* has (the published axis order|its makers' name)"),
        (convert_in_part, {"format": "pt"}, "has (MLX's axis order|a converter's name), so .* its format is 'pt'"),
    ],
    ids=["called-converted", "converted-in-part"],
)
def test_files_that_would_be_shifted_twice_or_never_are_refused(
    name: str, tmp_path: Path, change: Callable[[Weights], None], metadata: dict[str, str], said: str
) -> None:
    path = zoo_member(name).write(tmp_path) / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, path, metadata=metadata)
    for read in (lambda path: open_checkpoint(path).report(), load):
        with pytest.raises(CheckpointError, match=f"contradicts itself: .*{said}.* shifted twice or never"):
            read(tmp_path)


# ---- configs that are another model ------------------------------------------------------------------------------


def test_a_recurrent_head_is_refused(tmp_path: Path) -> None:
    member = nemotron_h(1)
    config = {**member.config, "mtp_hybrid_override_pattern": "ME"}
    with pytest.raises(CapabilityError, match="recurrent"):
        load(replace(member, config=config).write(tmp_path))


@pytest.mark.parametrize("key", ["layer_types", "rope_theta", "partial_rotary_factors", "swiglu_limits_shared"])
def test_lists_of_layers_that_do_not_reach_the_heads_are_refused(tmp_path: Path, key: str) -> None:
    """The target, which they reach, decodes all the same."""
    member = zoo_member("step-3.5")
    directory = replace(member, config={**member.config, key: member.config[key][:-1]}).write(tmp_path)
    with pytest.raises(CheckpointError, match=f"gives {key} for 5 layers, and 6 read it"):
        load(directory)
    assert load_checkpoint(directory, tokenizer=None, with_heads=False).heads is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layer_types": None}, "names no layer_types"),
        ({"swiglu_limits": [0.0, 0.0]}, "gives swiglu_limits for 2 layers, and 3 read it"),
        ({"use_rope_layers": [True, True, False]}, "without rotary positions"),
        ({"rope_theta": [1e4, "x", 1e4]}, "gives rope_theta as"),
    ],
    ids=str,
)
def test_lists_that_mlx_lm_reads_otherwise_are_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    member = zoo_member("step-3.5")
    directory = replace(member, config={**member.config, **change}).write(tmp_path)
    with pytest.raises(CheckpointError, match=said):
        load_checkpoint(directory, tokenizer=None, with_heads=False)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sliding_windows": [16, 8, 0]}, "lists the window 8 under sliding_windows"),
        ({"swiglu_limits": [0.0, 0.0, 7.0]}, "clamps layers"),
    ],
    ids=str,
)
def test_layers_of_k_exaone_that_mlx_lm_makes_alike_are_refused(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    member = zoo_member("k-exaone")
    directory = replace(member, config={**member.config, **change}).write(tmp_path)
    with pytest.raises(CheckpointError, match=said):
        load_checkpoint(directory, tokenizer=None, with_heads=False)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mtp_layer_types": ["linear_attention"]}, "gives mtp_layer_types as .'linear_attention'"),
        ({"mtp_layer_types": []}, "for each of 1 prediction heads"),
        ({"mtp_sliding_windows": [8]}, r"the window 8 under mtp_sliding_windows.*--no-mtp"),
    ],
    ids=str,
)
def test_a_head_of_k_exaone_that_is_not_described_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    member = zoo_member("k-exaone")
    with pytest.raises(CheckpointError, match=said):
        load(replace(member, config={**member.config, **change}).write(tmp_path))


def test_heads_of_k_exaone_of_several_kinds_are_refused(tmp_path: Path) -> None:
    member = zoo_member("k-exaone")
    second = {name.replace("layers.0", "layers.1"): array for name, array in member.head.items()}
    kinds = {"num_nextn_predict_layers": 2, "mtp_layer_types": ["full_attention", "sliding_attention"]}
    two = replace(member, config={**member.config, **kinds}, head={**member.head, **second}, heads=2)
    with pytest.raises(CapabilityError, match="several kinds of attention"):
        load(two.write(tmp_path))


@pytest.mark.parametrize("pattern", ["", "*X", 7])
def test_a_strange_pattern_is_refused(tmp_path: Path, pattern: Any) -> None:
    member = nemotron_h(1)
    config = {**member.config, "mtp_hybrid_override_pattern": pattern}
    with pytest.raises(CheckpointError, match=r"pattern|missing"):
        load(replace(member, config=config).write(tmp_path))


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("deepseek-v3", {"scoring_func": "softmax"}),
        ("deepseek-v3", {"topk_method": "greedy"}),
        ("deepseek-v3.2", {"rope_interleave": False}),
        ("deepseek-v3", {"hidden_act": "gelu"}),
        ("nemotron-h", {"mlp_hidden_act": "silu"}),
        ("nemotron-h", {"attention_bias": True}),
        ("step-3.5", {"zero_centered": False}),
        ("k-exaone", {"attention_bias": True}),
        ("glm-5", {"index_topk_freq": 4}),
        ("glm-5", {"index_topk_freq": 1, "indexer_types": ["full", "full", "shared"]}),
    ],
    ids=str,
)
def test_settings_that_the_decoder_passes_over_are_refused(tmp_path: Path, name: str, setting: dict[str, Any]) -> None:
    member = zoo_member(name)
    directory = replace(member, config={**member.config, **setting}).write(tmp_path)
    with pytest.raises(CapabilityError, match=next(iter(setting))):
        load_target(directory)
    report = open_checkpoint(directory).report().heads
    assert report.capability == MtpCapability.unsupported(MtpCheckpointKind.EMBEDDED, member.model_type)
    assert next(iter(setting)) in report.reason
