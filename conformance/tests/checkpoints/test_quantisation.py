"""How weights are quantised: eight-bit floats are read exactly, and every other method is refused by its name, once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from eredu.checkpoints.directory import OpenedDirectory
from eredu.checkpoints.fp8 import ScaledWeight, scaled_weights
from eredu.checkpoints.quantisation import Quantisation
from eredu.checkpoints.tensors import StoredTensor
from eredu.commands.main import main
from eredu.contract.capability import MtpState
from eredu.contract.errors import CapabilityError, CheckpointError
from eredu.engine.checkpoint import load_checkpoint, why_not_loaded
from eredu.mlx.fp8 import dequantised
from eredu_conformance.zoo import zoo_member
from eredu_conformance.zoo.converting import Conversion, write_converted
from eredu_conformance.zoo.eight_bits import VALUES
from eredu_conformance.zoo.quantising import Affine
from eredu_conformance.zoo.storing import Precision
from eredu_conformance.zoo.writing import write_directory

MEMBER = zoo_member("qwen3.5")
Arrays = Mapping[str, np.ndarray[Any, Any]]


def stored(name: str, shape: tuple[int, ...], dtype: str = "F8_E4M3") -> StoredTensor:
    return StoredTensor(name, shape, dtype, 0, "model.safetensors")


# ---- eight-bit floats -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "scale", "stated", "block"),
    [
        ((256, 128), (2, 1), (128, 128), (128, 128)),
        ((200, 130), (2, 2), (128, 128), (128, 128)),
        ((50, 70), (3, 3), (24, 24), (24, 24)),
        ((200, 130), (2, 2), None, (128, 128)),
        ((40, 60), (1, 1), (10**12, 24), (40, 60)),
        ((40, 200), (1, 2), (128, 128), (40, 128)),
        ((40, 60), (40, 1), None, (1, 60)),
        ((40, 60), (40,), None, (1, 60)),
        ((40, 60), (), None, (40, 60)),
        ((40, 60), (1, 1), (128, 128), (40, 60)),
        ((3, 50, 70), (3, 3, 3), (24, 24), (24, 24)),
        ((3, 50, 70), (3, 50, 1), None, (1, 70)),
        ((3, 50, 70), (3,), None, (50, 70)),
        ((16,), (1,), None, (1, 16)),
    ],
)
@pytest.mark.parametrize("exponents", [False, True])
def test_every_weight_is_its_byte_times_its_blocks_scale(
    shape: tuple[int, ...],
    scale: tuple[int, ...],
    stated: tuple[int, int] | None,
    block: tuple[int, int],
    *,
    exponents: bool,
) -> None:
    """Bit for bit against a loop over single weights in numpy, with all 256 bytes among them."""
    chance = np.random.default_rng(1)
    words = np.resize(chance.permutation(256).astype(np.uint8), shape)
    scales = np.asarray(np.exp2(chance.uniform(-9, 3, scale)), dtype=np.float32)
    kept = chance.integers(0, 255, scale).astype(np.uint8) if exponents else scales
    if exponents:
        scales = np.asarray(np.ldexp(np.float32(1), np.asarray(kept).astype(int) - 127), dtype=np.float32)
    tensors = [stored("w", shape), stored("w_scale_inv", scale, "F8_E8M0" if exponents else "F32")]
    (found,) = scaled_weights(tensors, stated, Path())
    assert found == ScaledWeight("w", "w_scale_inv", block, exponents)

    wide = words.reshape(-1, *shape[-2:]) if len(shape) > 1 else words.reshape(1, 1, -1)
    counts = (wide.shape[0], -(-wide.shape[1] // block[0]), -(-wide.shape[2] // block[1]))
    due = np.empty(wide.shape, np.float32)
    with np.errstate(over="ignore", under="ignore"):
        for (expert, row, column), byte in np.ndenumerate(wide):
            of_block = scales.reshape(counts)[expert, row // block[0], column // block[1]]
            due[expert, row, column] = VALUES[byte] * of_block
    arrays = {"w": mx.array(words), "w_scale_inv": mx.array(kept), "w.input_scale": mx.array(3.0)}
    for dtype in (mx.float32, mx.bfloat16, mx.float16):
        made = dequantised(arrays, Quantisation("fp8", scaled=(found,)), dtype)
        assert set(made) == {"w"}
        assert made["w"].dtype == dtype
        rounded = np.array(mx.array(due.reshape(shape)).astype(dtype).astype(mx.float32))
        tiny = np.abs(rounded) < np.finfo(np.float32).tiny  # which MLX may flush to zero
        mine = np.array(made["w"].astype(mx.float32))
        np.testing.assert_array_equal(np.where(tiny, 0, mine), np.where(tiny, 0, rounded))


@pytest.mark.parametrize(
    ("tensors", "stated", "words"),
    [
        ([stored("w", (40, 60))], None, "nothing gives its scales"),
        ([stored("w", (40, 60)), stored("w_scale", (3, 2), "F32")], None, r"\[3, 2\].*\[40, 60\]"),
        ([stored("w", (40, 60)), stored("w_scale_inv", (1, 2), "F32")], (24, 24), "blocks of 24 × 24"),
        ([stored("w", (40, 60)), stored("w_scale", (40, 1), "I32")], None, "type I32"),
        ([stored("w", (40,)), stored("w_scale", (40,), "F32")], None, "does not fit"),
    ],
)
def test_scales_that_do_not_fit_are_refused(
    tensors: list[StoredTensor], stated: tuple[int, int] | None, words: str
) -> None:
    with pytest.raises(CheckpointError, match=words):
        scaled_weights(tensors, stated, Path("x"))


@pytest.mark.parametrize("name", ["qwen3-next", "qwen3.5-moe", "deepseek-v3", "glm-4.5", "nemotron-h", "llama"])
def test_an_fp8_release_says_what_it_is_and_counts_its_weights(name: str, tmp_path: Path) -> None:
    member = zoo_member(name)
    opened = OpenedDirectory(member.write(tmp_path, precision=Precision.FP8))
    report = opened.report()
    assert why_not_loaded(opened) is None
    assert "e4m3" in str(report.quantization)
    assert report.parameter_count == sum(array.size for array in member.tensors.values())
    assert report.heads.capability.state is (MtpState.READY if member.heads else MtpState.UNAVAILABLE)
    scaled = opened.quantisation.scaled if opened.quantisation else ()
    assert len(scaled) > 10
    # NVIDIA leaves the heads in bfloat16; everybody else's are in eight bits too.
    assert any(each.weight in opened.head_names for each in scaled) == (member.heads > 0 and name != "nemotron-h")


def test_weights_in_eight_bits_come_in_the_type_that_was_asked_for(tmp_path: Path) -> None:
    """No detour over a narrower type."""
    member = zoo_member("llama")
    assert member.fp8 is not None
    directory = member.write(tmp_path, precision=Precision.FP8)
    due = member.rounded(Precision.FP8).body["model.layers.1.mlp.up_proj.weight"]
    for dtype, kind in (("float32", mx.float32), ("float16", mx.float16), ("checkpoint", mx.bfloat16)):
        model: Any = load_checkpoint(directory, tokenizer=None, dtype=dtype).model
        found = model.layers[1].mlp.up_proj.weight
        assert found.dtype == kind
        assert mx.array_equal(found, mx.array(due).astype(kind))


# ---- other methods --------------------------------------------------------------------------------------------------


def write_packed(
    directory: Path,
    config: Mapping[str, Any],
    parts: Arrays,
    files: Mapping[str, Any] | None = None,
    *,
    nested: bool = False,
) -> Path:
    """The member with every projection's `.weight` replaced by what a method stores in its place."""
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    for name, array in MEMBER.tensors.items():
        if parts and name.endswith("_proj.weight"):
            tensors |= {f"{name.removesuffix('weight')}{part}": value for part, value in parts.items()}
        else:
            tensors[name] = array
    said = dict(MEMBER.config)
    if nested:
        said["text_config"] = {**said["text_config"], **config}
    else:
        said |= config
    write_directory(directory, said, tensors)
    for name, content in (files or {}).items():
        (directory / name).write_text(json.dumps(content))
    return directory


WORDS = np.ones((8, 4), np.int32)
GPTQ: Arrays = {"qweight": WORDS, "qzeros": WORDS, "scales": np.ones((2, 2), np.float16), "g_idx": WORDS}
BNB: Arrays = {"weight": np.ones((32, 1), np.uint8), "weight.absmax": np.ones(4, np.float32)}
PACKED: Arrays = {"weight_packed": WORDS, "weight_scale": np.ones((2, 2), np.float16)}
NVFP4: Arrays = {"weight": np.ones((4, 4), np.uint8), "weight_scale_2": np.ones((), np.float32)}
INT8: Arrays = {"weight": np.ones((4, 4), np.int8), "weight_scale": np.ones((4, 1), np.float32)}
STATED: list[tuple[str, dict[str, Any], Arrays]] = [
    ("gptq", {"bits": 4}, GPTQ), ("awq", {"bits": 4}, GPTQ), ("bitsandbytes", {"load_in_4bit": True}, BNB),
    ("compressed-tensors", {"format": "pack-quantized"}, PACKED), ("compressed-tensors ", {}, INT8),
    ("quanto", {}, {}), ("hqq", {}, {"W_q": WORDS}), ("torchao", {}, {}), ("mxfp4", {}, {}), ("eetq", {}, {}),
    ("modelopt", {"quant_algo": "NVFP4"}, NVFP4), ("aqlm", {}, {}), ("spqr", {}, {}), ("higgs", {}, {}),
    ("vptq", {}, {}), ("fbgemm_fp8", {}, {}), ("bitnet", {}, {}), ("never-heard-of", {}, {}),
]  # fmt: skip
CASES: Mapping[str, tuple[dict[str, Any], Arrays, dict[str, Any], str]] = {
    **{
        method: ({"quantization_config": {"quant_method": method, **more}}, parts, {}, method)
        for method, more, parts in STATED
    },
    "compression_config": ({"compression_config": {"format": "pack-quantized"}}, PACKED, {}, "compressed-tensors"),
    "load_in_8bit": ({"quantization_config": {"load_in_8bit": True}}, BNB, {}, "bitsandbytes"),
    "quantize_config.json": ({}, GPTQ, {"quantize_config.json": {"bits": 4, "group_size": 128}}, "gptq, 4 bits"),
    "quant_config.json": ({}, GPTQ, {"quant_config.json": {"w_bit": 4, "q_group_size": 128}}, "awq, 4 bits"),
    "hf_quant_config.json": ({}, NVFP4, {"hf_quant_config.json": {"quantization": {"quant_algo": "NVFP4"}}}, "NVFP4"),
    "gptq tensors alone": ({}, GPTQ, {}, "GPTQ or AWQ"),
    "bitsandbytes tensors alone": ({}, BNB, {}, "bitsandbytes"),
    "packed tensors alone": ({}, PACKED, {}, "compressed-tensors"),
    "int8 tensors alone": ({}, INT8, {}, "eight-bit integers"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_another_method_is_refused_by_its_name_everywhere_in_the_same_words(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, parts, files, method = CASES[case]
    directory = write_packed(tmp_path / "it", config, parts, files)
    opened = OpenedDirectory(directory)
    reason = str(opened.not_loaded)
    assert method.strip() in reason
    assert "eredu convert" in reason
    assert len(reason) - len(str(directory)) < 360
    assert "\n" not in reason
    assert reason.count("_proj") <= 1
    report = opened.report()
    assert report.not_loaded == why_not_loaded(OpenedDirectory(directory)) == reason
    assert report.heads.capability.state is MtpState.UNSUPPORTED
    with pytest.raises(CapabilityError) as refused:
        load_checkpoint(directory, tokenizer=None)
    assert str(refused.value) == reason
    assert main(["generate", "--raw", "--model", str(directory), "abc"]) == 2
    assert capsys.readouterr().err == f"eredu: error: {reason}\n"


def test_layers_that_mlx_packed_need_its_settings(tmp_path: Path) -> None:
    directory = write_converted(MEMBER, tmp_path, Conversion(default=Affine(4)))
    config = json.loads((directory / "config.json").read_text())
    for older in (True, False):
        del config["quantization"]
        if not older:
            del config["quantization_config"]
        (directory / "config.json").write_text(json.dumps(config))
        opened = OpenedDirectory(directory)
        if older:  # MLX's settings under the name that others use
            assert load_checkpoint(opened, tokenizer=None).quantized
            config["quantization"] = None
        else:
            with pytest.raises(CheckpointError, match=r"packed by MLX.*gives no quantization") as refused:
                load_checkpoint(opened, tokenizer=None)
            assert why_not_loaded(opened) == str(refused.value)


def test_gpt_oss_comes_as_it_is_released(tmp_path: Path) -> None:
    """Experts in mxfp4, which mlx-lm reads: their values against the OCP format's, decoded by numpy."""
    chance = np.random.default_rng(0)

    def drawn(*shape: int) -> np.ndarray[Any, Any]:
        return np.asarray(chance.standard_normal(shape) * 0.1, dtype=np.float32)

    tensors: dict[str, np.ndarray[Any, Any]] = {
        "model.embed_tokens.weight": drawn(64, 32), "model.norm.weight": drawn(32), "lm_head.weight": drawn(64, 32),
    }  # fmt: skip
    for layer in ("model.layers.0.", "model.layers.1."):
        shapes: dict[str, tuple[int, ...]] = {
            "input_layernorm.weight": (32,), "post_attention_layernorm.weight": (32,), "self_attn.sinks": (2,),
            "mlp.router.weight": (4, 32), "mlp.router.bias": (4,), "mlp.experts.gate_up_proj_bias": (4, 64),
            "mlp.experts.down_proj_bias": (4, 32),
        }  # fmt: skip
        for part, rows in (("q_proj", 32), ("k_proj", 16), ("v_proj", 16), ("o_proj", 32)):
            shapes |= {f"self_attn.{part}.weight": (rows, 32), f"self_attn.{part}.bias": (rows,)}
        tensors |= {f"{layer}{name}": drawn(*shape) for name, shape in shapes.items()}
        for name, rows in (("gate_up_proj", 64), ("down_proj", 32)):
            tensors[f"{layer}mlp.experts.{name}_blocks"] = chance.integers(0, 256, (4, rows, 1, 16)).astype(np.uint8)
            tensors[f"{layer}mlp.experts.{name}_scales"] = chance.integers(118, 124, (4, rows, 1)).astype(np.uint8)
    config = {
        "model_type": "gpt_oss", "num_hidden_layers": 2, "num_local_experts": 4, "num_experts_per_tok": 2,
        "vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "head_dim": 16, "num_attention_heads": 2,
        "num_key_value_heads": 1, "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"],
        "rope_theta": 150000, "tie_word_embeddings": False, "quantization_config": {"quant_method": "mxfp4"},
    }  # fmt: skip
    opened = OpenedDirectory(write_directory(tmp_path, config, tensors))
    assert opened.report().quantization == "mxfp4"
    model: Any = load_checkpoint(opened, tokenizer=None, dtype="float32").model
    blocks, scales = (tensors[f"{layer}mlp.experts.gate_up_proj_{part}"] for part in ("blocks", "scales"))
    sizes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float32)
    values = np.concatenate([sizes, -sizes])[np.stack([blocks & 15, blocks >> 4], axis=-1)].reshape(4, 64, 32)
    due = (values * np.exp2(scales.astype(np.float32) - 127))[:, ::2]
    np.testing.assert_array_equal(np.array(model.model.layers[1].mlp.experts.gate_proj.weight), due)


def test_a_method_counts_on_either_level_of_a_nested_config(tmp_path: Path) -> None:
    for place in ("top", "nested"):
        said = {"quantization_config": {"quant_method": "gptq", "bits": 4}}
        directory = write_packed(tmp_path / place, said, GPTQ, nested=place == "nested")
        assert "gptq, 4 bits" in str(OpenedDirectory(directory).not_loaded)


def test_a_file_that_was_left_beside_plain_weights_counts_for_nothing(tmp_path: Path) -> None:
    files = {"quantize_config.json": {"bits": 4}, "hf_quant_config.json": {"quantization": {"quant_algo": "FP8"}}}
    opened = OpenedDirectory(write_packed(tmp_path, {}, {}, files))
    assert opened.not_loaded is None
    assert load_checkpoint(opened, tokenizer=None).heads is not None


def test_settings_that_are_no_object_are_refused(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [{"quantization_config": "fp8"}, {"quantization": {"group_size": 64}}]
    sizes: list[Any] = [None, [], 0, True, "64"]
    wrong += [{"quantization": {"group_size": size, "bits": 4}} for size in sizes]
    for number, said in enumerate(wrong):
        directory = write_packed(tmp_path / str(number), said, {})
        with pytest.raises(CheckpointError, match="expected"):
            load_checkpoint(directory, tokenizer=None)
    directory = write_packed(tmp_path / "file", {}, GPTQ, {"quantize_config.json": [4]})
    with pytest.raises(CheckpointError, match="expected an object"):
        load_checkpoint(directory, tokenizer=None)
    said = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [0, 128]}}
    directory = MEMBER.write(tmp_path / "block", precision=Precision.FP8)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | said))
    with pytest.raises(CheckpointError, match="block of a scale"):
        OpenedDirectory(directory).report()
