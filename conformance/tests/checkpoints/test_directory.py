import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_flatten

from eredu.checkpoints.caches import CacheKind, Rollback
from eredu.checkpoints.names import DRAFT_NAME, shipped_path
from eredu.checkpoints.opening import open_checkpoint
from eredu.contract.capability import MtpCapability, MtpCheckpointKind
from eredu.contract.errors import CheckpointError
from eredu.families.registry import MODEL_TYPES

Shapes = Mapping[str, tuple[str, tuple[int, ...]]]
WriteDirectory = Callable[..., Path]


def caches(directory: Path) -> list[tuple[str, int | None, int | None, str]]:
    report = open_checkpoint(directory).report()
    return [(cache.kind, cache.layers, cache.window, cache.rollback) for cache in report.caches]


def test_llama(write_directory: WriteDirectory) -> None:
    report = open_checkpoint(write_directory()).report()
    assert (report.family, report.container, report.layers, report.hidden_size) == ("llama", "safetensors", 2, 8)
    assert (report.attention_heads, report.key_value_heads) == (4, 2)
    assert (report.vocabulary_rows, report.context_limit) == (16, 128)
    assert report.tied_embeddings
    assert report.parameter_count == 16 * 8 + 2 * 8 * 8 + 8
    assert report.size_bytes == 2 * (16 * 8 + 2 * 8 * 8) + 4 * 8
    assert report.quantization is None
    assert report.rolls_back_exactly
    assert report.heads.capability == MtpCapability.unavailable()


def test_json_form_is_stable(write_directory: WriteDirectory) -> None:
    directory = write_directory()
    assert json.loads(json.dumps(open_checkpoint(directory).report().to_json())) == {
        "path": str(directory),
        "container": "safetensors",
        "family": "llama",
        "layers": 2,
        "hidden_size": 8,
        "attention_heads": 4,
        "key_value_heads": 2,
        "vocabulary_rows": 16,
        "context_limit": 128,
        "tied_embeddings": True,
        "parameter_count": 264,
        "quantization": None,
        "size_bytes": 544,
        "bytes_by_dtype": {"BF16": 512, "F32": 32},
        "tensor_count": 4,
        "files": ["model.safetensors"],
        "caches": [{"kind": "full-attention", "layers": 2, "window": None, "rollback": "exact"}],
        "rolls_back_exactly": True,
        "not_loaded": None,
        "mtp": {
            "claimed": 0,
            "tensors": 0,
            "usable_depth": 0,
            "capability": {"state": "unavailable"},
            "reason": "the family llama has no prediction heads; an independent draft model can propose for it",
        },
    }


def test_the_draft_that_ships() -> None:
    report = open_checkpoint(shipped_path(DRAFT_NAME)).report()
    assert (report.family, report.layers, report.vocabulary_rows) == ("llama", 4, 49152)
    assert report.parameter_count == 15_730_944
    assert report.size_bytes < 11e6
    assert report.quantization == "affine, 5 bits, groups of 64"
    assert report.rolls_back_exactly


def test_an_output_projection_unties_the_embedding(write_directory: WriteDirectory) -> None:
    assert not open_checkpoint(write_directory({"lm_head.weight": ("BF16", (16, 8))})).report().tied_embeddings


def test_packed_weights_are_counted_unpacked(tmp_path: Path) -> None:
    """Packed by MLX itself: 4 bits in groups of 32, and one layer of 8 bits in groups of 64."""
    model = nn.Sequential(nn.Linear(64, 32), nn.Linear(64, 16, bias=False))
    nn.quantize(
        model,
        group_size=32,
        bits=4,
        class_predicate=lambda path, _: {"group_size": 64, "bits": 8} if path.endswith("1") else True,
    )
    mx.save_safetensors(str(tmp_path / "model.safetensors"), dict(tree_flatten(model.parameters())))
    config = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "vocab_size": 16,
        "quantization": {"group_size": 32, "bits": 4, "layers.1": {"group_size": 64, "bits": 8}},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    report = open_checkpoint(tmp_path).report()
    assert report.parameter_count == 64 * 32 + 32 + 64 * 16
    assert report.quantization == "affine, 4 bits, groups of 32; some layers affine, 8 bits, groups of 64"


def test_packed_weights_without_their_group_size(write_directory: WriteDirectory) -> None:
    directory = write_directory({"l.weight": ("U32", (4, 8)), "l.scales": ("BF16", (4, 1))})
    with pytest.raises(CheckpointError, match=r"'l' is packed .* gives no quantization"):
        open_checkpoint(directory).report()


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"quant_method": "fp8", "fmt": "e4m3"}, "fp8"), ({"bits": 4, "quant_method": "gptq"}, "gptq, 4 bits")],
)
def test_other_libraries_quantization_is_named(
    write_directory: WriteDirectory, settings: dict[str, Any], words: str
) -> None:
    assert words in str(open_checkpoint(write_directory(quantization_config=settings)).report().quantization)


WINDOW = {"sliding_window": 64}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "qwen3"}, [(CacheKind.FULL, 2, None, Rollback.EXACT)]),
        ({"model_type": "deepseek_v3"}, [(CacheKind.LATENT, 2, None, Rollback.EXACT)]),
        ({"model_type": "deepseek_v4"}, [(CacheKind.COMPRESSED, 2, None, Rollback.NOT_YET)]),
        ({"model_type": "mamba2"}, [(CacheKind.RECURRENT, 2, None, Rollback.NOT_YET)]),
        (
            {"model_type": "llama", "layer_types": ["sliding_attention", "full_attention"], **WINDOW},
            [(CacheKind.WINDOW, 1, 64, Rollback.EXACT), (CacheKind.FULL, 1, None, Rollback.EXACT)],
        ),
        (
            {"model_type": "gpt_oss", "num_hidden_layers": 3, "sliding_window": 128},
            [(CacheKind.WINDOW, 2, 128, Rollback.EXACT), (CacheKind.FULL, 1, None, Rollback.EXACT)],
        ),
        (
            {"model_type": "gemma3_text", "num_hidden_layers": 7, **WINDOW},
            [(CacheKind.WINDOW, 6, 64, Rollback.EXACT), (CacheKind.FULL, 1, None, Rollback.EXACT)],
        ),
        (
            {"model_type": "gemma4_text", "num_hidden_layers": 7, "num_kv_shared_layers": 3, **WINDOW},
            [(CacheKind.WINDOW, 4, 64, Rollback.EXACT)],
        ),
        (
            {"model_type": "step3p5", "layer_types": ["sliding_attention", "full_attention", "a head's"], **WINDOW},
            [(CacheKind.WINDOW, 1, 64, Rollback.EXACT), (CacheKind.FULL, 1, None, Rollback.EXACT)],
        ),
        (
            {"model_type": "qwen3_next", "num_hidden_layers": 8},
            [(CacheKind.RECURRENT, 6, None, Rollback.EXACT), (CacheKind.FULL, 2, None, Rollback.EXACT)],
        ),
        (
            {"model_type": "nemotron_h", "hybrid_override_pattern": "M-*E", "num_hidden_layers": 4},
            [(CacheKind.RECURRENT, 1, None, Rollback.EXACT), (CacheKind.FULL, 1, None, Rollback.EXACT)],
        ),
        (
            {
                "model_type": "nemotron_h",
                "layers_block_type": ["attention", "moe", "attention"],
                "num_hidden_layers": 3,
            },
            [(CacheKind.FULL, 2, None, Rollback.EXACT)],
        ),
    ],
)
def test_caches_by_family(
    write_directory: WriteDirectory, config: dict[str, Any], expected: list[tuple[Any, ...]]
) -> None:
    directory = write_directory(**config)
    assert caches(directory) == expected
    exact = all(rollback is Rollback.EXACT for *_, rollback in expected)
    assert open_checkpoint(directory).report().rolls_back_exactly == exact


def test_nested_text_config_is_the_decoder(write_directory: WriteDirectory) -> None:
    nested = {"num_hidden_layers": 4, "hidden_size": 32, "vocab_size": 99, "full_attention_interval": 2}
    report = open_checkpoint(write_directory(model_type="qwen3_5", text_config=nested, num_hidden_layers=None)).report()
    assert (report.layers, report.hidden_size, report.vocabulary_rows) == (4, 32, 99)
    assert [cache.layers for cache in report.caches] == [2, 2]


QWEN_HEAD: Shapes = dict.fromkeys(
    (
        *(f"mtp.{n}.weight" for n in ("fc", "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")),
        *(f"mtp.layers.0.{n}.weight" for n in ("input_layernorm", "post_attention_layernorm")),
        *(f"mtp.layers.0.self_attn.{n}_proj.weight" for n in "qkvo"),
        *(f"mtp.layers.0.self_attn.{n}_norm.weight" for n in "qk"),
        *(f"mtp.layers.0.mlp.{n}_proj.weight" for n in ("gate", "up", "down")),
    ),
    ("BF16", (4,)),
)
DEEPSEEK_HEAD: Shapes = dict.fromkeys(
    (
        f"model.layers.2.{n}.weight"
        for n in ("enorm", "hnorm", "eh_proj", "shared_head.norm", "input_layernorm", "self_attn.o_proj")
    ),
    ("BF16", (4,)),
)
V4_HEAD: Shapes = dict.fromkeys(
    (f"mtp.0.{n}.weight" for n in ("enorm", "hnorm", "norm", "e_proj", "h_proj")), ("BF16", (4,))
)
DSPARK_HEAD: Shapes = dict.fromkeys(
    ("mtp.0.main_proj.weight", "mtp.0.main_norm.weight", "mtp.2.norm.weight", "mtp.2.markov_head.markov_w1.weight"),
    ("BF16", (4,)),
)
INKLING_HEAD: Shapes = dict.fromkeys(
    (f"model.mtp.layers.0.{n}.weight" for n in ("hidden_norm", "embed_norm", "input_proj")), ("BF16", (4,))
)
NEMOTRON_HEAD: Shapes = dict.fromkeys(
    (*(f"mtp.layers.0.{n}.weight" for n in ("enorm", "hnorm", "eh_proj")), "mtp.layers.1.final_layernorm.weight"),
    ("BF16", (4,)),
)
DSPARK_CONFIG = {
    "dspark_block_size": 5,
    "dspark_noise_token_id": 1,
    "dspark_target_layer_ids": [0],
    "dspark_markov_rank": 4,
}
HEADS: list[tuple[dict[str, Any], Shapes]] = [
    ({"model_type": "qwen3_next", "mtp_num_hidden_layers": 1}, QWEN_HEAD),
    ({"model_type": "qwen3_5", "num_nextn_predict_layers": 1}, QWEN_HEAD),
    ({"model_type": "deepseek_v3", "num_nextn_predict_layers": 1}, DEEPSEEK_HEAD),
    ({"model_type": "deepseek_v4", "num_nextn_predict_layers": 1}, V4_HEAD),
    ({"model_type": "deepseek_v4", "num_nextn_predict_layers": 3, **DSPARK_CONFIG}, DSPARK_HEAD),
    ({"model_type": "inkling", "mtp_config": {"num_nextn_predict_layers": 1}}, INKLING_HEAD),
    (
        {
            "model_type": "nemotron_h",
            "hybrid_override_pattern": "M*",
            "num_nextn_predict_layers": 1,
            "mtp_hybrid_override_pattern": "*E",
        },
        NEMOTRON_HEAD,
    ),
]
EACH_FAMILY = pytest.mark.parametrize(("config", "head"), HEADS, ids=[config["model_type"] for config, _ in HEADS])


@EACH_FAMILY
def test_a_head_that_is_there_is_ready_where_its_family_runs(
    write_directory: WriteDirectory, config: dict[str, Any], head: Shapes
) -> None:
    directory, family = write_directory(head, **config), config["model_type"]
    report = open_checkpoint(directory).report().heads
    ready, unsupported = MtpCapability.ready, MtpCapability.unsupported
    kind, facts = MtpCheckpointKind.EMBEDDED, MODEL_TYPES[family].heads
    assert facts is not None
    assert report.capability == (ready(kind) if facts.runs else unsupported(kind, family))
    assert (report.claimed > 0, report.tensors) == (True, len(head))


EXPERTS = {
    "packed": ("mlp.experts.gate_up_proj", "mlp.experts.down_proj"),
    "single": tuple(f"mlp.experts.{e}.{p}_proj.weight" for e in range(2) for p in ("gate", "up", "down")),
    "stacked": tuple(f"mlp.switch_mlp.{p}_proj.weight" for p in ("gate", "up", "down")),
}


@pytest.mark.parametrize("form", EXPERTS)
def test_experts_count_in_each_form(write_directory: WriteDirectory, form: str) -> None:
    attention = {name: shape for name, shape in QWEN_HEAD.items() if ".mlp." not in name}
    shared = [f"mlp.shared_expert.{p}_proj.weight" for p in ("gate", "up", "down")]
    names = [*shared, "mlp.gate.weight", "mlp.shared_expert_gate.weight", *EXPERTS[form]]
    head = {**attention, **dict.fromkeys((f"mtp.layers.0.{name}" for name in names), ("BF16", (4,)))}
    config = {"model_type": "qwen3_5_moe", "num_experts": 2, "mtp_num_hidden_layers": 1}
    directory = write_directory(head, **config)
    assert open_checkpoint(directory).report().heads.capability.is_ready
    shutil.rmtree(directory)
    without = {name: shape for name, shape in head.items() if name != f"mtp.layers.0.{EXPERTS[form][-1]}"}
    if form != "single":  # which of a head's single experts is missing shows when they are stacked
        with pytest.raises(CheckpointError, match=r"missing, such as mtp.layers.0.mlp.experts.down_proj.weight"):
            open_checkpoint(write_directory(without, **config)).report()


@EACH_FAMILY
def test_a_claim_without_tensors_is_no_capability(
    write_directory: WriteDirectory, config: dict[str, Any], head: Shapes
) -> None:
    report = open_checkpoint(write_directory(**config)).report().heads
    assert report.capability == MtpCapability.unavailable()
    assert "ships none of their tensors" in report.reason
    assert head


@EACH_FAMILY
def test_each_single_missing_tensor_is_an_error(
    write_directory: WriteDirectory, config: dict[str, Any], head: Shapes
) -> None:
    for missing in head:
        rest = {name: shape for name, shape in head.items() if name != missing}
        directory = write_directory(rest, **config)
        with pytest.raises(CheckpointError, match="1 are missing, such as"):
            open_checkpoint(directory).report()
        shutil.rmtree(directory)


def test_tensors_without_a_claim_are_what_the_family_publishes(write_directory: WriteDirectory) -> None:
    report = open_checkpoint(write_directory(QWEN_HEAD, model_type="qwen3_next")).report().heads
    assert (report.claimed, report.tensors, report.capability.is_ready) == (1, 15, True)


def test_tensors_of_a_head_that_the_config_denies_are_left_alone(write_directory: WriteDirectory) -> None:
    directory = write_directory(QWEN_HEAD, model_type="qwen3_next", mtp_num_hidden_layers=0)
    report = open_checkpoint(directory).report().heads
    assert report.capability == MtpCapability.unavailable()
    assert "although it holds 15 tensors" in report.reason


@pytest.mark.parametrize("names", ["model.layers.2.{}", "model.mtp_layers.0.{}", "mtp.layers.0.{}", "mtp_block.{}"])
def test_heads_of_a_family_that_has_them_and_eredu_does_not_run(write_directory: WriteDirectory, names: str) -> None:
    head = {names.format(n): ("BF16", (4,)) for n in ("enorm.weight", "hnorm.weight")}
    directory = write_directory(head, model_type="qwen3_moe", num_nextn_predict_layers=1)
    report = open_checkpoint(directory).report().heads
    assert report.capability == MtpCapability.unsupported(MtpCheckpointKind.EMBEDDED, "qwen3_moe")
    assert (report.claimed, report.tensors) == (1, 2)
    assert "qwen3_moe is published with heads that eredu does not run; it runs those of deepseek_v3" in report.reason


def test_half_of_the_fused_drafter_keys_is_an_error(write_directory: WriteDirectory) -> None:
    directory = write_directory(model_type="deepseek_v4", num_nextn_predict_layers=1, dspark_block_size=4)
    with pytest.raises(CheckpointError, match="dspark_block_size and not all of"):
        open_checkpoint(directory).report()


@pytest.mark.parametrize("family", ["gemma4_assistant", "muse_glimmer_assistant"])
def test_an_assistant_is_no_target(write_directory: WriteDirectory, family: str) -> None:
    report = open_checkpoint(write_directory(model_type=family)).report()
    assert report.heads.capability == MtpCapability.unsupported(MtpCheckpointKind.SEPARATE, family)
    assert report.caches == ()
    assert not report.rolls_back_exactly


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "no_such"}, "model_type 'no_such', whose caches eredu does not know; known are"),
        ({"model_type": None}, "has no model_type"),
        ({"model_type": 3}, "has no model_type"),
        ({"num_hidden_layers": None}, "num_hidden_layers as None"),
        ({"num_hidden_layers": -1}, "num_hidden_layers as -1"),
        ({"num_hidden_layers": 10**12}, "expected a whole number from 0 to 10000"),
        ({"model_type": "qwen3_next", "mtp_num_hidden_layers": 10**12}, "from 0 to 1000"),
        ({"model_type": "inkling", "mtp_config": 3}, "mtp_config as 3"),
        ({"model_type": "inkling", "mtp_config": {"num_nextn_predict_layers": "x"}}, "num_nextn_predict_layers as 'x'"),
        (
            {"model_type": "nemotron_h", "hybrid_override_pattern": "M*", "mtp_layers_block_type": 3},
            "mtp_layers_block_type as 3",
        ),
        ({"hidden_size": "8"}, "hidden_size as '8'"),
        ({"vocab_size": True}, "vocab_size as True"),
        ({"max_position_embeddings": 1.5}, "max_position_embeddings as 1.5"),
        ({"layer_types": ["full_attention"]}, "num_hidden_layers as 2, and names 1 layer_types"),
        ({"layer_types": ["full_attention", "holographic"]}, "layer type 'holographic'"),
        ({"layer_types": "full_attention"}, "expected a list of strings"),
        ({"layer_types": ["sliding_attention"] * 2}, "sliding_window as None"),
        ({"model_type": "nemotron_h"}, "hybrid_override_pattern"),
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "MX"}, "gives hybrid_override_pattern"),
        ({"quantization": 4}, "quantization as 4"),
    ],
)
def test_damaged_configs_are_errors(write_directory: WriteDirectory, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(write_directory(**changes)).report()


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "could not be read as JSON"), ("[]", "JSON list"), ("\x00", "could not be read"), (None, "no config.json")],
)
def test_config_files_that_are_none(write_directory: WriteDirectory, content: str | None, message: str) -> None:
    directory = write_directory()
    (directory / "config.json").unlink()
    if content is not None:
        (directory / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(directory).report()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.bin", "pickle file"),
        ("model.pt", "pickle file"),
        ("model.safetensors", "weights alone"),
        ("model.txt", "begins with b'cos"),
    ],
)
def test_paths_to_other_files(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'true'\ntR." + bytes(8))
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(tmp_path / name).report()
    with pytest.raises(CheckpointError, match="does not exist"):
        open_checkpoint(tmp_path / "none").report()
