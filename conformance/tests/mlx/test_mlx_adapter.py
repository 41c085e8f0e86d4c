"""The adapter is the one door to mlx-lm, its signatures are the installed ones, and it never runs foreign code."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

import eredu
from eredu.contract.errors import CheckpointError, OptionError
from eredu.engine.checkpoint import load_checkpoint
from eredu.mlx.adapter import is_quantized, load_directory
from eredu_conformance.harness.tiny_models import TinyDecoder

SIGNATURES = {
    "mlx_lm.utils.load_model": "model_path lazy strict model_config get_model_classes trust_remote_code",
    "mlx_lm.utils._get_classes": "config",
    "mlx_lm.utils.dequantize_model": "model",
    "mlx_lm.utils.quantize_model": "model config group_size bits mode global_scale quant_predicate",
    "mlx_lm.utils.save_model": "save_path model donate_model",
    "mlx_lm.utils.infer_quant_config": "path module weights",
    "mlx_lm.models.cache.make_prompt_cache": "model max_kv_size",
    "mlx_lm.models.llama.Model.shard": "self group",
    "mlx_lm.models.pipeline.PipelineMixin.pipeline": "self group split",
    "mlx_lm.models.cache.KVCache.update_and_fetch": "self keys values",
    "mlx_lm.models.cache.KVCache.trim": "self n",
    "mlx_lm.models.cache.KVCache.is_trimmable": "self",
    "mlx_lm.models.base.scaled_dot_product_attention": "queries keys values cache scale mask sinks",
    "mlx_lm.models.base.create_attention_mask": "h cache window_size return_array",
    "mlx_lm.models.base.create_causal_mask": "N offset window_size right_padding left_padding",
    "mlx_lm.models.llama.Model.__call__": "self inputs cache input_embeddings",
    "mlx_lm.models.gated_delta.gated_delta_update": "q k v a b A_log dt_bias state mask use_kernel lower_bound "
    "allow_neg_eigval",
    "mlx_lm.models.gated_delta.compute_g": "A_log a dt_bias",
    "mlx_lm.models.gated_delta.normalize_qk": "q k inv_scale eps",
    "mlx_lm.models.ssm.ssm_update": "hidden_states A_log B C D dt dt_bias state time_step_limit mask lengths",
    "mlx_lm.models.deepseek_v3.DeepseekV3Attention.__call__": "self x mask cache",
    "mlx_lm.models.deepseek_v3.DeepseekV3DecoderLayer.__init__": "self config layer_idx",
    "mlx_lm.models.deepseek_v3.DeepseekV3DecoderLayer.__call__": "self x mask cache",
    "mlx_lm.models.deepseek_v3.Model.sanitize": "self weights",
    "mlx_lm.models.deepseek_v32.DeepseekV32Attention.__call__": "self x mask cache",
    "mlx_lm.models.deepseek_v32.DeepseekV32DecoderLayer.__init__": "self config layer_idx",
    "mlx_lm.models.deepseek_v32.DeepseekV32DecoderLayer.__call__": "self x mask cache",
    "mlx_lm.models.deepseek_v32.Indexer.__call__": "self x qr mask cache",
    "mlx_lm.models.deepseek_v32.Model.sanitize": "self weights",
    "mlx_lm.models.mla.MultiLinear.__init__": "self input_dims output_dims num_heads",
    "mlx_lm.models.nemotron_h.NemotronHBlock.__init__": "self args block_type",
    "mlx_lm.models.nemotron_h.NemotronHBlock.__call__": "self x mask cache",
    "mlx_lm.models.nemotron_h.NemotronHMamba2Mixer._ssm": "self hidden_states B C dt cache mask",
    "mlx_lm.models.nemotron_h.Model.sanitize": "self weights",
    "mlx_lm.generate.generate_step": "prompt model",
    "mlx_lm.generate.speculative_generate_step": "prompt model draft_model stream",
}
"""Parameter names, in order, that eredu relies on. The last two are used by benchmarks; a prefix is pinned there."""
PREFIX_ONLY = {"mlx_lm.generate.generate_step", "mlx_lm.generate.speculative_generate_step"}
SOURCES = sorted(Path(eredu.__file__).parent.rglob("*.py"))


def resolve(name: str) -> Callable[..., Any]:
    parts = name.split(".")
    for split in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for part in parts[split:]:
            found = getattr(found, part)
        return found  # type: ignore[no-any-return]
    raise AssertionError(name)


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_installed_signature_is_the_pinned_one(name: str) -> None:
    parameters = tuple(inspect.signature(resolve(name)).parameters)
    pinned = tuple(SIGNATURES[name].split())
    assert (parameters[: len(pinned)] if name in PREFIX_ONLY else parameters) == pinned


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("mlx_lm"):
            names.add(node.value)
    return names


def test_only_the_adapter_imports_mlx_lm() -> None:
    guilty = [path.name for path in SOURCES if any(name.split(".")[0] == "mlx_lm" for name in imported(path))]
    assert guilty == ["adapter.py"]


@pytest.fixture
def decoder(tmp_path: Path) -> Path:
    return TinyDecoder().write(tmp_path / "model")


def load(path: Path) -> None:
    load_checkpoint(path, tokenizer=None)


def test_a_sound_directory_loads(decoder: Path) -> None:
    checkpoint = load_checkpoint(decoder, tokenizer=None)
    assert (checkpoint.architecture, checkpoint.vocabulary_size, checkpoint.context) == ("llama", 48, 512)
    assert not checkpoint.quantized


@pytest.mark.parametrize("kept", [0, 4, 8, 100, 1000, -1])
def test_cut_safetensors_are_refused(decoder: Path, kept: int) -> None:
    weights = decoder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        load(decoder)


JUNK = [b"", b"\xff" * 4096, b"PK\x03\x04" + b"\0" * 100, b"\x10" + b"\0" * 7 + b"{}" + b" " * 14]


@pytest.mark.parametrize("junk", JUNK, ids=["empty", "ones", "zip", "no-tensors"])
def test_other_files_are_refused(decoder: Path, junk: bytes) -> None:
    (decoder / "model.safetensors").write_bytes(junk)
    with pytest.raises(CheckpointError):
        load(decoder)


def test_an_index_that_names_a_missing_shard_is_refused(decoder: Path) -> None:
    index = {"metadata": {}, "weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors"}}
    (decoder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="model-00002-of-00002"):
        load(decoder)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"weight_map": 3}', '{"weight_map": {"a": 1}}'])
def test_a_damaged_index_is_refused(decoder: Path, text: str) -> None:
    (decoder / "model.safetensors.index.json").write_text(text)
    with pytest.raises(CheckpointError, match="index"):
        load(decoder)


def test_missing_pieces_are_named(decoder: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist"):
        load(tmp_path / "nowhere")
    (decoder / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load(decoder)
    TinyDecoder().write(decoder)
    (decoder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="safetensors"):
        load(decoder)


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '"llama"', "\ufeff{}"])
def test_a_config_that_is_no_object_is_refused(decoder: Path, text: str) -> None:
    (decoder / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match="config"):
        load(decoder)


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "no_such_family"},
        {"model_type": "../../etc"},
        {"model_type": None},
        {"num_attention_heads": 0},
        {"num_attention_heads": "four"},
        {"num_hidden_layers": 3},
        {"hidden_size": 33},
        {"vocab_size": 47},
        {"rope_scaling": {"type": "no_such"}},
        {"quantization": {"bits": 5}},
    ],
    ids="-".join,
)
def test_a_config_that_contradicts_the_weights_is_refused(decoder: Path, change: dict[str, Any]) -> None:
    TinyDecoder().write(decoder, config=change)
    with pytest.raises(CheckpointError):
        load(decoder)


def test_missing_and_unknown_tensors_are_refused(decoder: Path) -> None:
    weights = TinyDecoder().weights()
    lacking = {name: tensor for name, tensor in weights.items() if "layers.1.mlp.up" not in name}
    TinyDecoder().write(decoder, weights=lacking)
    with pytest.raises(CheckpointError, match=r"layers\.1\.mlp\.up"):
        load(decoder)
    TinyDecoder().write(decoder, weights=weights | {"model.surprise": np.zeros((2, 2), dtype=np.float32)})
    with pytest.raises(CheckpointError, match="surprise"):
        load(decoder)


def test_code_beside_the_weights_is_never_run(decoder: Path) -> None:
    marker = decoder / "ran"
    (decoder / "evil.py").write_text(f"import pathlib\npathlib.Path({str(marker)!r}).write_text('x')\n")
    TinyDecoder().write(decoder, config={"model_file": "evil.py", "auto_map": {"AutoModel": "evil.Model"}})
    with pytest.raises(CheckpointError, match="custom module"):
        load(decoder)
    assert not marker.exists()


def test_unknown_dtypes_are_refused_before_anything_is_read(decoder: Path) -> None:
    with pytest.raises(OptionError, match="float64"):
        load_checkpoint(decoder, tokenizer=None, dtype="float64")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_dtypes_cast_every_weight(decoder: Path, dtype: str) -> None:
    checkpoint = load_checkpoint(decoder, tokenizer=None, dtype=dtype)
    logits = checkpoint.model(mx.array([[1, 2, 3]]))
    assert logits.dtype == getattr(mx, dtype)
    exact = load_checkpoint(decoder, tokenizer=None).model(mx.array([[1, 2, 3]]))
    np.testing.assert_allclose(np.array(logits.astype(mx.float32)), np.array(exact), atol=0.25)


def quantise(directory: Path) -> Path:
    """Rewrite a directory with every projection in 4 bits."""
    model: Any = load_directory(directory)[0]
    nn.quantize(model, group_size=32, bits=4)
    flat: Any = tree_flatten(model.parameters())
    weights = {name: np.array(array) for name, array in flat}
    config = {"quantization": {"group_size": 32, "bits": 4}}
    return TinyDecoder(intermediate=64).write(directory, weights=weights, config=config)


def test_quantised_directories_stay_quantised_until_cast(tmp_path: Path) -> None:
    directory = quantise(TinyDecoder(intermediate=64).write(tmp_path))
    kept, cast = load_checkpoint(directory, tokenizer=None), load_checkpoint(directory, tokenizer=None, dtype="float32")
    assert (kept.quantized, cast.quantized) == (True, False)
    assert is_quantized(kept.model)
    inputs = mx.array([[1, 2, 3]])
    np.testing.assert_allclose(np.array(kept.model(inputs)), np.array(cast.model(inputs)), atol=1e-4)


ROPE_SCALINGS: list[dict[str, Any]] = [
    {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 64},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    {"rope_type": "linear", "factor": 2.0},
]  # fmt: skip


@pytest.mark.parametrize("scaling", ROPE_SCALINGS, ids=lambda scaling: str(scaling["rope_type"]))
def test_a_model_serves_a_thread_that_did_not_load_it(tmp_path: Path, scaling: dict[str, Any]) -> None:
    """Lazy arrays belong to the thread that made them: rotary frequencies are no parameters, and easily forgotten."""
    directory = TinyDecoder().write(tmp_path, config={"rope_scaling": scaling})
    model = load_directory(directory)[0]
    errors: list[BaseException] = []
    found: list[Any] = []

    def use() -> None:
        try:
            with mx.stream(mx.new_stream(mx.default_device())):
                found.append(np.array(model(mx.array([[1, 2, 3]]))))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert not errors
    here = np.array(model(mx.array([[1, 2, 3]])))
    np.testing.assert_allclose(found[0], here, atol=1e-6)
