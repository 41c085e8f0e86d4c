"""GGUF llamas against the same weights through mlx-lm's own loader; damaged files are errors, never crashes."""

from __future__ import annotations

import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import mlx.core as mx
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

from eredu.checkpoints.gguf_set import read_gguf
from eredu.checkpoints.opening import open_checkpoint
from eredu.contract.errors import CheckpointError
from eredu.engine.checkpoint import load_checkpoint
from eredu.mlx.adapter import load_directory
from eredu.mlx.gguf import load_gguf
from eredu.mlx.gguf_tensors import read_gguf_tensors
from eredu_conformance.harness.tiny_models import TinyDecoder, Weights
from eredu_conformance.protocol import Checkpoint, Ok, Request, Run, RunOptions, attempt
from eredu_conformance.subjects.mlx_lm import MlxLmSubject

DECODER = TinyDecoder(hidden=64, intermediate=96)
INPUTS = [3, 1, 4, 1, 5, 9, 2, 6, 47]
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    layer, _, kind = name.rpartition(".")
    if layer.startswith("model.layers."):
        _, _, number, module = layer.split(".", 3)
        return f"blk.{number}.{NAMES[module]}.{kind}"
    return f"{NAMES[layer]}.{kind}"


def interleaved(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Query or key rows as converters write them: the halves of each head interleaved."""
    parted = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return np.ascontiguousarray(parted.swapaxes(1, 2).reshape(rows.shape))


def write(
    path: Path,
    decoder: TinyDecoder,
    kind: Type = Type.F32,
    *,
    architecture: str = "llama",
    metadata: dict[str, Any] | None = None,
    extra: dict[str, NDArray[Any]] | None = None,
    without: str = "",
    more: Callable[[gguf.GGUFWriter], None] = lambda _: None,
) -> Weights:
    """Write a decoder as GGUF; return the weights that a reader should see, under Hugging Face's names."""
    writer = gguf.GGUFWriter(path, architecture)
    values: dict[str, Any] = {
        "block_count": decoder.layers,
        "context_length": decoder.context,
        "embedding_length": decoder.hidden,
        "feed_forward_length": decoder.intermediate,
        "attention.head_count": decoder.heads,
        "attention.head_count_kv": decoder.kv_heads,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 10000.0,
        "rope.dimension_count": decoder.head_dim,
    } | (metadata or {})
    adders: dict[type, Callable[[str, Any], None]] = {
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
        list: writer.add_array,
    }
    for key, value in values.items():
        if value is not None:
            adders[type(value)](f"{architecture}.{key}", value)
    seen: Weights = {}
    for name, tensor in decoder.weights().items():
        heads = decoder.heads if "q_proj" in name else decoder.kv_heads if "k_proj" in name else 0
        stored = interleaved(tensor, heads) if heads else tensor
        own = kind if tensor.ndim == 2 else Type.F32
        packed = gguf.quants.quantize(stored, own)
        if gguf_name(name) != without:
            writer.add_tensor(gguf_name(name), packed, raw_dtype=own)
        read = gguf.quants.dequantize(packed, own).reshape(tensor.shape).astype(np.float32)
        seen[name] = deinterleaved(read, heads) if heads else read
    for name, tensor in (extra or {}).items():
        writer.add_tensor(name, tensor)
    more(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return seen


def deinterleaved(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    parted = rows.reshape(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:])
    return np.ascontiguousarray(parted.swapaxes(1, 2).reshape(rows.shape))


def logits(model: Any) -> NDArray[np.float32]:
    return np.array(model(mx.array([INPUTS], dtype=mx.uint32))[0].astype(mx.float32))


@pytest.mark.parametrize("kind", [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1])
@pytest.mark.parametrize(
    "decoder", [DECODER, replace(DECODER, tied=True), replace(DECODER, bias=True)], ids=["untied", "tied", "biases"]
)
def test_logits_are_those_of_the_same_weights(tmp_path: Path, kind: Type, decoder: TinyDecoder) -> None:
    seen = write(tmp_path / "model.gguf", decoder, kind)
    checkpoint = load_checkpoint(tmp_path / "model.gguf", tokenizer=None)
    twin = load_directory(decoder.write(tmp_path / "twin", weights=seen))[0]
    exact = logits(twin)
    tolerance = 1e-5 if kind is Type.F32 else 0.02
    np.testing.assert_allclose(logits(checkpoint.model), exact, atol=tolerance * exact.std(), rtol=0)
    assert checkpoint.quantized == (kind in {Type.Q8_0, Type.Q4_0, Type.Q4_1})
    assert (checkpoint.vocabulary_size, checkpoint.context, checkpoint.architecture) == (48, 512, "llama")


def test_quantised_tensors_keep_their_bits(tmp_path: Path) -> None:
    for kind, bits in ((Type.Q8_0, 8), (Type.Q4_0, 4), (Type.Q4_1, 4)):
        write(tmp_path / "model.gguf", DECODER, kind)
        model: Any = load_gguf(read_gguf(tmp_path / "model.gguf"))[0]
        layer = model.layers[0].self_attn.q_proj
        assert (type(layer).__name__, layer.bits, layer.group_size) == ("QuantizedLinear", bits, 32)
        assert type(model.model.embed_tokens).__name__ == "QuantizedEmbedding"
        assert layer.weight.nbytes == 64 * 64 * bits // 8


def test_the_subject_mlx_lm_decodes_a_file_as_the_directory_of_its_weights(tmp_path: Path) -> None:
    seen = write(tmp_path / "model.gguf", DECODER)
    subject, outputs = MlxLmSubject(), []
    for target in (tmp_path / "model.gguf", DECODER.write(tmp_path / "twin", weights=seen)):
        request = Request(prompt=tuple(INPUTS), options=RunOptions(max_tokens=24))
        outcome = attempt(subject, subject.start(), Run(checkpoint=Checkpoint(target=target), requests=(request,)))
        assert isinstance(outcome, Ok), outcome
        outputs.append(outcome.result.answers[0].tokens)
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0])) > 1


def test_linear_scaling_is_mlx_lms(tmp_path: Path) -> None:
    seen = write(tmp_path / "model.gguf", DECODER, metadata={"rope.scaling.type": "linear", "rope.scaling.factor": 4.0})
    scaling = {"rope_scaling": {"type": "linear", "factor": 4.0}}
    twin = load_directory(DECODER.write(tmp_path / "twin", weights=seen, config=scaling))[0]
    np.testing.assert_allclose(logits(load_gguf(read_gguf(tmp_path / "model.gguf"))[0]), logits(twin), atol=1e-4)


def test_rope_frequencies_are_llama_3s(tmp_path: Path) -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    twin: Any = load_directory(DECODER.write(tmp_path / "twin", config={"rope_scaling": scaling}))[0]
    periods = np.array(twin.layers[0].self_attn.rope._freqs)
    factors = (periods / 10000.0 ** (np.arange(0, 16, 2) / 16)).astype(np.float32)
    assert factors.max() > 4
    write(tmp_path / "model.gguf", DECODER, extra={"rope_freqs.weight": factors})
    np.testing.assert_allclose(logits(load_gguf(read_gguf(tmp_path / "model.gguf"))[0]), logits(twin), atol=1e-4)


def test_linear_scaling_and_frequencies_multiply(tmp_path: Path) -> None:
    factors = np.linspace(1, 5, 8).astype(np.float32)
    linear = {"rope.scaling.type": "linear", "rope.scaling.factor": 2.0}
    write(tmp_path / "both.gguf", DECODER, metadata=linear, extra={"rope_freqs.weight": factors})
    write(tmp_path / "one.gguf", DECODER, extra={"rope_freqs.weight": 2 * factors})
    both, one = (logits(load_gguf(read_gguf(tmp_path / name))[0]) for name in ("both.gguf", "one.gguf"))
    np.testing.assert_allclose(both, one, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": "qwen2"}, "architecture 'qwen2'"),
        ({"without": "blk.1.ffn_up.weight"}, r"lacks the tensor 'blk\.1\.ffn_up\.weight'"),
        ({"without": "token_embd.weight"}, "token_embd"),
        (
            {"extra": {"blk.0.ffn_gate_inp.weight": np.zeros((4, 4), np.float32)}},
            "mixture of experts .* 'blk.0.ffn_gate_inp",
        ),
        ({"extra": {"mystery": np.zeros((4,), np.float32)}}, "mystery"),
        ({"extra": {"rope_freqs.weight": np.ones((7,), np.float32)}}, "one factor for each of 8"),
        ({"metadata": {"rope.scaling.type": "yarn"}}, "yarn"),
        ({"metadata": {"rope.scaling.type": "linear"}}, r"rope\.scaling\.factor"),
        ({"metadata": {"rope.dimension_count": 8}}, "rotates 8 of 16"),
        ({"metadata": {"block_count": None}}, "block_count"),
        ({"metadata": {"block_count": 1}}, r"'blk\.1\.\w+\.weight', which a llama of 1 layers"),
        ({"metadata": {"block_count": 2**31 - 1}}, "block_count as 2147483647"),
        ({"metadata": {"expert_count": 8}}, "mixture of experts"),
        ({"metadata": {"attention.head_count": [4, 4]}}, "head_count"),
        ({"metadata": {"attention.head_count": 0}}, "head_count"),
        (
            {"metadata": {"embedding_length": 32, "rope.dimension_count": None}},
            r"'token_embd\.weight' in the shape \(48, 64\)",
        ),
        ({"metadata": {"block_count": 3}}, r"lacks the tensor 'blk\.2"),
    ],
)
def test_files_that_are_no_llama_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    write(tmp_path / "model.gguf", DECODER, **options)
    with pytest.raises(CheckpointError, match=message) as raised:
        load_gguf(read_gguf(tmp_path / "model.gguf"))
    said = open_checkpoint(tmp_path / "model.gguf").not_loaded
    assert said == str(raised.value), "inspection says what loading says"


def random_blocks(kind: Type, rows: int, columns: int) -> NDArray[np.uint8]:
    """Random packed weights with sane scales, for types whose quantiser the reference lacks."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    packed = np.random.default_rng(int(kind)).integers(0, 256, size=(rows, columns // block, size), dtype=np.uint8)
    scale = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    places = {Type.Q2_K: (80, 82), Type.Q6_K: (208,), Type.Q4_K: (0, 2), Type.Q3_K: (108,), Type.Q5_K: (0, 2)}
    for at in places.get(kind, (0,)):
        packed[..., at : at + 2] = scale
    return packed.reshape(rows, -1)


def write_one(path: Path, kind: Type) -> NDArray[Any]:
    values = np.random.default_rng(1).normal(size=(8, 256)).astype(np.float32)
    packed: NDArray[Any] = values.astype(np.float64)
    if kind is not Type.F64:
        try:
            packed = gguf.quants.quantize(values, kind)
        except NotImplementedError:
            packed = random_blocks(kind, 8, 256)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("blk.0.attn_q.weight", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return values if kind is Type.F64 else np.asarray(gguf.quants.dequantize(packed, kind))


@pytest.mark.parametrize("kind", sorted({Type.F32, Type.F16, Type.F64, *gguf.quants._type_traits}))
def test_every_type_decodes_as_the_reference_decoder_says(tmp_path: Path, kind: Type) -> None:
    exact = write_one(tmp_path / "one.gguf", kind)
    arrays = read_gguf_tensors(read_gguf(tmp_path / "one.gguf"))
    found = arrays["blk.0.attn_q.weight"]
    if "blk.0.attn_q.scales" in arrays:
        scales = arrays["blk.0.attn_q.scales"]
        bits = found.shape[-1] // scales.shape[-1]
        found = mx.dequantize(found, scales, arrays["blk.0.attn_q.biases"], group_size=32, bits=bits)
    with np.errstate(all="ignore"):  # random blocks of some types go beyond float16
        exact = exact.astype(np.float16) if kind not in {Type.F32, Type.F64, Type.BF16} else exact
    finite = np.abs(exact[np.isfinite(exact)]).max()
    np.testing.assert_allclose(np.array(found.astype(mx.float32)), exact, atol=2e-3 * finite)


@pytest.mark.parametrize("kind", [Type.F32, Type.F16, Type.Q4_0, Type.Q4_1, Type.Q8_0])
def test_packed_types_are_the_bits_of_mlxs_own_reader(tmp_path: Path, kind: Type) -> None:
    write_one(tmp_path / "one.gguf", kind)
    own: Any = mx.load(str(tmp_path / "one.gguf"))
    found = read_gguf_tensors(read_gguf(tmp_path / "one.gguf"))
    assert found.keys() == own.keys()
    for name, array in found.items():
        assert array.dtype == own[name].dtype
        assert mx.array_equal(array, own[name]).item(), name


def test_types_without_a_decoder_are_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path / "model.gguf", DECODER)
    whole = (tmp_path / "model.gguf").read_bytes()
    at = whole.index(b"output_norm.weight") + len(b"output_norm.weight") + 4 + 8
    (tmp_path / "model.gguf").write_bytes(whole[:at] + struct.pack("<I", Type.Q8_K) + whole[at + 4 :])
    with pytest.raises(CheckpointError, match=r"blocks of 256|Q8_K"):
        load_gguf(read_gguf(tmp_path / "model.gguf"))


def test_metadata_of_every_type_load(tmp_path: Path) -> None:
    """MLX's reader ends the process on a float64 value; this one reads all that the format has."""
    path = tmp_path / "model.gguf"
    write(path, DECODER)
    exact = logits(load_gguf(read_gguf(path))[0])
    kinds = gguf.GGUFValueType
    singles = {kind: 1 for kind in kinds if kind not in {kinds.ARRAY, kinds.STRING}}

    def more(writer: gguf.GGUFWriter) -> None:
        for kind, value in singles.items():
            writer.add_key_value(f"more.{kind.name}", value, kind)
            writer.add_key_value(f"more.{kind.name}s", [value, value], kinds.ARRAY, sub_type=kind)
        writer.add_key_value("more.nested", [[1, 2], [3]], kinds.ARRAY, sub_type=kinds.ARRAY)
        writer.add_key_value("more.empty", ["", ""], kinds.ARRAY, sub_type=kinds.STRING)

    write(path, DECODER, more=more)
    header = read_gguf(path)
    assert header.metadata["more.FLOAT64"] == 1.0
    assert header.metadata["more.nested"] == [[1, 2], [3]]
    np.testing.assert_array_equal(logits(load_gguf(header)[0]), exact)


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.nightly), pytest.param(2, marks=pytest.mark.nightly)]
)
def test_damaged_headers_never_crash_the_process(tmp_path: Path, seed: int) -> None:
    """Each mutation of the header loads, or is a `CheckpointError`; a crash would show as another exit status."""
    write(tmp_path / "model.gguf", DECODER, Type.Q4_1, metadata={"tokenizer.tokens": ["a", "b", "c"]})
    script = f"""
        import random, pathlib
        from eredu.checkpoints.gguf_set import read_gguf
        from eredu.contract.errors import CheckpointError
        from eredu.mlx.gguf import load_gguf
        source = pathlib.Path({str(tmp_path / "model.gguf")!r})
        whole, target = source.read_bytes(), source.with_name("damaged.gguf")
        random.seed({seed})
        refused = 0
        for _ in range(150):
            data = bytearray(whole)
            for _ in range(random.randint(1, 3)):
                data[random.randrange(1600)] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
            target.write_bytes(data)
            try:
                load_gguf(read_gguf(target))
            except CheckpointError:
                refused += 1
        print(refused)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 30
