"""Small checkpoints written byte by byte, so that each can be broken in one place."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

BITS = {"F32": 32, "BF16": 16, "U32": 32}
Shapes = Mapping[str, tuple[str, tuple[int, ...]]]

LLAMA_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 16,
    "max_position_embeddings": 128,
}
LLAMA_SHAPES: Shapes = {
    "model.embed_tokens.weight": ("BF16", (16, 8)),
    "model.layers.0.self_attn.q_proj.weight": ("BF16", (8, 8)),
    "model.layers.1.self_attn.q_proj.weight": ("BF16", (8, 8)),
    "model.norm.weight": ("F32", (8,)),
}


def safetensors_bytes(shapes: Shapes) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
    at = 0
    for name, (dtype, shape) in shapes.items():
        end = at + math.prod(shape) * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + bytes(at)


def fitting_shapes(config: Mapping[str, Any]) -> Shapes:
    """`LLAMA_SHAPES` with the layers and the embedding that a config states, where it states sensible ones."""
    text = {**config, **config.get("text_config", {})}
    shapes, layers = dict(LLAMA_SHAPES), text.get("num_hidden_layers")
    if isinstance(layers, int) and 2 < layers < 20:
        shapes |= {f"model.layers.{i}.input_layernorm.weight": ("F32", (8,)) for i in range(2, layers)}
    rows, width = text.get("vocab_size"), text.get("hidden_size")
    if type(rows) is int and type(width) is int:
        shapes["model.embed_tokens.weight"] = ("BF16", (rows, width))
    return shapes


@pytest.fixture(scope="session")
def llama_shapes() -> Shapes:
    return LLAMA_SHAPES


@pytest.fixture(scope="session")
def pack_tensors() -> Callable[[Shapes], bytes]:
    return safetensors_bytes


@pytest.fixture
def write_directory(tmp_path: Path) -> Callable[..., Path]:
    """Write a llama directory with further tensors and with config changes (None removes a key)."""

    def write(more: Shapes | None = None, **changes: Any) -> Path:
        directory = tmp_path / "checkpoint"
        directory.mkdir()
        config = {key: value for key, value in {**LLAMA_CONFIG, **changes}.items() if value is not None}
        (directory / "config.json").write_text(json.dumps(config))
        (directory / "model.safetensors").write_bytes(safetensors_bytes({**fitting_shapes(config), **(more or {})}))
        return directory

    return write


@pytest.fixture
def write_tiny_gguf() -> Callable[[Path], Path]:
    """Write the smallest llama that can be inspected."""

    def write(path: Path) -> Path:
        writer = gguf.GGUFWriter(path, "llama")
        counts = {"block_count": 1, "embedding_length": 8, "context_length": 64, "attention.head_count": 2}
        for key, value in counts.items():
            writer.add_uint32(f"llama.{key}", value)
        writer.add_tensor("token_embd.weight", np.ones((16, 8), np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write
