"""What the metadata of a GGUF llama say, under Hugging Face's keys; and what of them eredu does not run, by name.

Inspection and loading ask here, so both refuse the same files in the same words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from eredu.checkpoints.gguf_header import GgufHeader
from eredu.contract.errors import CheckpointError

ARCHITECTURE = "llama"
FREQUENCIES = "rope_freqs.weight"
EXPERTS = re.compile(r"^blk\.\d+\.ffn_(?:gate_inp|(?:gate|up|down)_exps|(?:gate|up|down)\.\d+)\b")
"""Tensors of a mixture of experts, in both forms that converters wrote."""
TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
BLOCK = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def llama_config(header: GgufHeader) -> dict[str, Any]:
    """The config of a llama that eredu loads from a GGUF.

    Raises `CheckpointError` for another architecture, a feature that eredu does not run from GGUF, and values that are
    missing or out of range.
    """
    header.require_model()
    path, metadata, architecture = header.path, header.metadata, header.architecture
    if architecture != ARCHITECTURE:
        raise CheckpointError(
            f"{path} holds architecture {architecture!r}; GGUF targets of the llama family are supported. "
            "Load other families from their SafeTensors directory"
        )
    _require_dense(header)
    for tensor in header.tensors:
        llama_name(header, tensor.name)
    number, count = partial(_number, header), partial(_count, header)
    heads, hidden = count("attention.head_count"), count("embedding_length")
    head_dim = count("attention.key_length", max(1, hidden // heads))
    _require_plain_heads(header, head_dim)
    scaling = metadata.get("llama.rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise CheckpointError(f"{path} scales its rotary positions by {scaling!r}; 'none' and 'linear' are supported")
    tensors = {tensor.name: tensor.shape for tensor in header.tensors}
    config = {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": count("block_count"),
        "intermediate_size": count("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": count("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rms_norm_eps": float(number("attention.layer_norm_rms_epsilon")),
        "rope_theta": float(number("rope.freq_base", 10000.0)),
        "rope_traditional": True,
        "rope_scaling": {"type": "linear", "factor": float(number("rope.scaling.factor"))}
        if scaling == "linear"
        else None,
        "vocab_size": _vocabulary_size(header, tensors),
        "max_position_embeddings": count("context_length"),
        "tie_word_embeddings": "output.weight" not in tensors,
        "attention_bias": "blk.0.attn_q.bias" in tensors,
        "mlp_bias": "blk.0.ffn_gate.bias" in tensors,
    }
    _require_tensors(header, config)
    _require_factors(config, tensors.get(FREQUENCIES))
    return config


def llama_name(header: GgufHeader, name: str) -> str | None:
    """Name of a tensor in the model, None for `FREQUENCIES`. Raises `CheckpointError` for one that llamas lack."""
    if name == FREQUENCIES:
        return None
    block = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(\w+)", name)
    if block and block[2] in BLOCK:
        return f"model.layers.{block[1]}.{BLOCK[block[2]]}.{block[3]}"
    top, _, kind = name.partition(".")
    if top in TOP:
        return f"{TOP[top]}.{kind}"
    raise CheckpointError(
        f"{header.path} holds the tensor {name!r}, of a feature that eredu does not run in GGUF files of the llama "
        "family; load the model's SafeTensors directory if eredu knows its family"
    )


def _require_dense(header: GgufHeader) -> None:
    experts = header.metadata.get("llama.expert_count", 0)
    mixed = next((tensor.name for tensor in header.tensors if EXPERTS.match(tensor.name)), None)
    if experts or mixed is not None:
        raise CheckpointError(
            f"{header.path} is a mixture of experts (llama.expert_count is {experts!r}"
            f"{'' if mixed is None else f', and {mixed!r} is there'}), such as Mixtral, which eredu does not run from "
            "GGUF; load the model's SafeTensors directory"
        )


def _number(header: GgufHeader, key: str, default: float | None = None) -> Any:
    """One positive number of the architecture, the same for all layers."""
    found = header.metadata.get(f"llama.{key}", default)
    if found is None:
        raise CheckpointError(f"{header.path} lacks the metadata key 'llama.{key}'; the file is incomplete")
    if isinstance(found, list):
        raise CheckpointError(
            f"{header.path} gives 'llama.{key}' layer by layer ({len(found)} values); eredu runs llamas whose layers "
            "are alike. Load the model's SafeTensors directory"
        )
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 < found < math.inf:
        raise CheckpointError(f"{header.path} gives 'llama.{key}' as {found!r}; expected one positive number")
    return found


def _count(header: GgufHeader, key: str, default: int | None = None) -> int:
    found = _number(header, key, default)
    if found != int(found) or found >= 2**31:
        raise CheckpointError(f"{header.path} gives 'llama.{key}' as {found!r}; expected a whole number below 2**31")
    return int(found)


def _require_factors(config: dict[str, Any], shape: tuple[int, ...] | None) -> None:
    if shape not in (None, (config["head_dim"] // 2,)):
        raise CheckpointError(
            f"{FREQUENCIES} has shape {shape}; expected one factor for each of {config['head_dim'] // 2} pairs"
        )


def _require_plain_heads(header: GgufHeader, head_dim: int) -> None:
    """Refuse heads whose values have another width than their keys, or that are rotated in part."""
    values = _count(header, "attention.value_length", head_dim)
    if values != head_dim:
        raise CheckpointError(
            f"{header.path} has keys of {head_dim} and values of {values} numbers a head; llamas have equal ones"
        )
    rotated = _count(header, "rope.dimension_count", head_dim)
    if rotated != head_dim:
        raise CheckpointError(
            f"{header.path} rotates {rotated} of {head_dim} dimensions of a head; the llama family rotates all of them"
        )


def _require_tensors(header: GgufHeader, config: dict[str, Any]) -> None:
    """Refuse a file whose tensors are not those that the config needs, before anything is built for it."""
    found = {tensor.name: tensor.shape for tensor in header.tensors if tensor.name != FREQUENCIES}
    layers = config["num_hidden_layers"]
    if layers > len(found):
        raise CheckpointError(
            f"{header.path} gives llama.block_count as {layers}, and holds {len(found)} tensors: it is incomplete, or "
            "damaged"
        )
    expected = dict(_expected(config))
    if found == expected:
        return
    for name, shape in expected.items():
        if name not in found:
            raise CheckpointError(f"{header.path} lacks the tensor {name!r} of shape {shape}: the file is incomplete")
        if found[name] != shape:
            raise CheckpointError(
                f"{header.path} holds {name!r} in the shape {found[name]}; its metadata make {shape} of it: the file "
                "is damaged"
            )
    stray = min(found.keys() - expected.keys())
    raise CheckpointError(
        f"{header.path} holds the tensor {stray!r}, which a llama of {layers} layers with its metadata does not have"
    )


def _expected(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of all tensors that a model of this config has."""
    hidden, inner, rows = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    attention = {"q": (queries, hidden), "k": (keys, hidden), "v": (keys, hidden), "output": (hidden, queries)}
    inside = {"gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}
    yield "token_embd.weight", (rows, hidden)
    yield "output_norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "output.weight", (rows, hidden)
    for number in range(config["num_hidden_layers"]):
        for prefix, shapes, biased in (("attn", attention, "attention_bias"), ("ffn", inside, "mlp_bias")):
            yield f"blk.{number}.{prefix}_norm.weight", (hidden,)
            for part, shape in shapes.items():
                yield f"blk.{number}.{prefix}_{part}.weight", shape
                if config[biased]:
                    yield f"blk.{number}.{prefix}_{part}.bias", shape[:1]


def _vocabulary_size(header: GgufHeader, tensors: dict[str, tuple[int, ...]]) -> int:
    embedding = tensors.get("token_embd.weight", ())
    if len(embedding) != 2:
        raise CheckpointError(f"{header.path} has no matrix token_embd.weight; a language model begins with one")
    return embedding[0]
