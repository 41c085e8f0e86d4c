"""Inspection of Hugging Face directories: config.json and the headers of SafeTensors files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eredu.checkpoints.caches import LayerCache, summarize_caches
from eredu.checkpoints.config import ModelConfig, read_config
from eredu.checkpoints.families import ASSISTANTS, layer_caches
from eredu.checkpoints.heads import head_caches, head_names, head_report, is_head_directory, weight_pattern
from eredu.checkpoints.layout import head_layouts
from eredu.checkpoints.report import CheckpointReport
from eredu.checkpoints.safetensors_header import read_directory_headers
from eredu.checkpoints.tensors import StoredTensor
from eredu.contract.errors import CheckpointError

CONTEXT_KEYS = ("max_position_embeddings", "max_sequence_length", "seq_length")


def inspect_directory(directory: Path) -> CheckpointReport:
    """Report on a Hugging Face directory. Raises `CheckpointError` as `inspect_checkpoint` says."""
    config = read_config(directory)
    alone = is_head_directory(config)
    layers = _caches(config)  # first, so that an unknown family is named before any key of it is missed
    tensors = read_directory_headers(directory, weight_pattern(config))
    context = next((config.count(key) for key in CONTEXT_KEYS if config.get(key) is not None), None)
    attention_heads = _optional_count(config, "num_attention_heads")
    heads = head_report(config, (tensor.name for tensor in tensors))
    if heads.capability.is_ready:
        head_layouts(directory, tensors, head_names(config, (tensor.name for tensor in tensors)))
    return CheckpointReport(
        path=str(directory),
        container="safetensors",
        family=config.model_type,
        layers=heads.claimed if alone else config.layers,
        hidden_size=config.count("hidden_size"),
        attention_heads=attention_heads,
        key_value_heads=_optional_count(config, "num_key_value_heads") or attention_heads,
        vocabulary_rows=config.count("vocab_size", 0 if alone else None),
        context_limit=context,
        tied_embeddings=not any(tensor.name.endswith("lm_head.weight") for tensor in tensors),
        parameter_count=_parameter_count(config, tensors),
        quantization=_quantization(config),
        caches=summarize_caches(layers, context),
        heads=heads,
        tensors=tensors,
    )


def _caches(config: ModelConfig) -> Sequence[LayerCache | None]:
    """Caches of a decoder or of heads; an assistant's are its target's, or trimmed with it, and are not reported."""
    if is_head_directory(config):
        return head_caches(config)
    return [] if config.model_type in ASSISTANTS else layer_caches(config)


def _optional_count(config: ModelConfig, key: str) -> int | None:
    return None if config.get(key) is None else config.count(key)


def _quantization(config: ModelConfig) -> str | None:
    """In words: MLX's `quantization`, or the method that another library's `quantization_config` names."""
    settings = config.values.get("quantization", config.values.get("quantization_config"))
    if settings is None:
        return None
    if not isinstance(settings, Mapping):
        raise CheckpointError(f"{config.path} gives quantization as {settings!r}; expected an object")
    if "bits" not in settings:
        return str(settings.get("quant_method", "of an unnamed method"))
    default, others = _described(settings), {_described(o) for o in settings.values() if isinstance(o, Mapping)}
    mixed = sorted(others - {default})
    return f"{default}; some layers {', '.join(mixed)}" if mixed else default


def _described(settings: Mapping[str, Any]) -> str:
    mode = settings.get("mode") or settings.get("quant_method") or "affine"
    return f"{mode}, {settings.get('bits')} bits, groups of {settings.get('group_size')}"


def _parameter_count(config: ModelConfig, tensors: Sequence[StoredTensor]) -> int:
    """Weights before packing: MLX packs a layer's into words of 32 bits, with a scale for every group of them."""
    by_name = {tensor.name: tensor for tensor in tensors}
    count = 0
    for tensor in tensors:
        layer, _, part = tensor.name.rpartition(".")
        scales = by_name.get(f"{layer}.scales")
        if scales is None or tensor.dtype != "U32" or part != "weight":
            count += 0 if part in {"scales", "biases"} and f"{layer}.weight" in by_name else tensor.element_count
            continue
        count += math.prod(scales.shape) * _group_size(config, layer)
    return count


def _group_size(config: ModelConfig, layer: str) -> int:
    settings = config.values.get("quantization", {})
    own = settings.get(layer) if isinstance(settings, Mapping) else None
    size = (own if isinstance(own, Mapping) else settings).get("group_size") if isinstance(settings, Mapping) else None
    if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
        raise CheckpointError(
            f"layer {layer!r} is packed in {config.path.parent}, and {config.path} gives its quantization group_size "
            f"as {size!r}; expected how many weights share a scale"
        )
    return size
