"""Inspection of GGUF files: the metadata's own keys, the same for every architecture that is known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from eredu.checkpoints.caches import CacheKind, CacheReport, LayerCache, Rollback, rollback_of, summarize_caches
from eredu.checkpoints.config import MAX_COUNT, MAX_LAYERS
from eredu.checkpoints.gguf_header import GgufHeader, read_gguf_header
from eredu.checkpoints.heads import HeadReport, judge_heads
from eredu.checkpoints.report import CheckpointReport
from eredu.contract.capability import MtpCapability, MtpCheckpointKind
from eredu.contract.errors import CheckpointError

LATENT = frozenset({"deepseek2"})
COMPRESSED = frozenset({"deepseek4"})
ASSISTANTS = frozenset({"gemma4-assistant", "dflash"})
DECODERS = frozenset({
    "cohere2", "command-r", "exaone", "exaone4", "gemma", "gemma2", "gemma3", "gemma4", "glm4", "gpt-oss", "gpt2",
    "granite", "internlm2", "llama", "mamba", "mamba2", "nemotron", "nemotron_h", "nemotron_h_moe", "olmo2", "phi2",
    "phi3", "qwen2", "qwen2moe", "qwen3", "qwen35", "qwen35moe", "qwen3moe", "qwen3next", "seed_oss", "smollm3",
    "stablelm", "starcoder2",
})  # fmt: skip
KNOWN = LATENT | COMPRESSED | ASSISTANTS | DECODERS
WHOLE_PRECISION = frozenset({"F32", "F16", "BF16", "F64"})


def inspect_gguf(path: Path) -> CheckpointReport:
    """Report on a GGUF file. Raises `CheckpointError` as `inspect_checkpoint` says."""
    header = read_gguf_header(path)
    architecture = header.architecture
    if architecture not in KNOWN:
        raise CheckpointError(
            f"{path} holds the architecture {architecture!r}, whose caches eredu does not know; known are "
            f"{', '.join(sorted(KNOWN))}"
        )
    context = _number(header, "context_length", required=False)
    heads = _number(header, "attention.head_count", required=False)
    names = {tensor.name: tensor for tensor in header.tensors}
    embedding = names.get("token_embd.weight")
    return CheckpointReport(
        path=str(path),
        container="gguf",
        family=architecture,
        layers=_required(header, "block_count"),
        hidden_size=_required(header, "embedding_length"),
        attention_heads=heads,
        key_value_heads=_number(header, "attention.head_count_kv", required=False) or heads,
        vocabulary_rows=_rows(header) if embedding is None else embedding.shape[0],
        context_limit=context,
        tied_embeddings="output.weight" not in names,
        parameter_count=sum(tensor.element_count for tensor in header.tensors),
        quantization=_quantization(header),
        caches=_caches(header, context),
        heads=_heads(header),
        tensors=header.tensors,
    )


def _value(header: GgufHeader, key: str) -> Any:
    return header.metadata.get(f"{header.architecture}.{key}")


def _number(header: GgufHeader, key: str, *, required: bool) -> int | None:
    """A count of the architecture; where layers differ, the largest. Raises `CheckpointError` on other values."""
    value = _value(header, key)
    if value is None and not required:
        return None
    if isinstance(value, list):
        value = max(value, default=None)
    most = MAX_LAYERS if key == "block_count" else MAX_COUNT
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise CheckpointError(
            f"{header.path} gives {header.architecture}.{key} as {value!r}; expected a whole number from 0 to {most}: "
            "the file is incomplete or damaged"
        )
    return value


def _required(header: GgufHeader, key: str) -> int:
    return _number(header, key, required=True) or 0


def _rows(header: GgufHeader) -> int:
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list):
        raise CheckpointError(f"{header.path} has neither token_embd.weight nor tokens; expected a language model")
    return len(tokens)


def _quantization(header: GgufHeader) -> str | None:
    """The GGML type of most weights, and how many tensors have it."""
    weights: Counter[str] = Counter()
    for tensor in header.tensors:
        weights[tensor.dtype] += tensor.element_count
    quantized = [kind for kind, _ in weights.most_common() if kind not in WHOLE_PRECISION]
    if not quantized:
        return None
    counts = Counter(tensor.dtype for tensor in header.tensors)
    return ", ".join(f"{kind} ({counts[kind]} of {len(header.tensors)} tensors)" for kind in quantized)


def _caches(header: GgufHeader, context: int | None) -> tuple[CacheReport, ...]:
    """Kinds of cache. Which layers have which is the runtime's knowledge, so layers of mixed files are not counted."""
    architecture, layers = header.architecture, _required(header, "block_count")
    if architecture in ASSISTANTS:
        return ()
    if architecture in LATENT | COMPRESSED:
        kind = CacheKind.LATENT if architecture in LATENT else CacheKind.COMPRESSED
        return summarize_caches([LayerCache(kind)] * layers, context)
    window = _number(header, "attention.sliding_window", required=False)
    recurrent = any(key.startswith(f"{architecture}.ssm.") for key in header.metadata)
    if not window and not recurrent:
        return summarize_caches([LayerCache(CacheKind.FULL)] * layers, context)
    reports = [CacheReport(CacheKind.FULL, None, None, Rollback.EXACT)]
    if window:
        rollback = rollback_of(LayerCache(CacheKind.WINDOW, window), context)
        reports.append(CacheReport(CacheKind.WINDOW, None, window, rollback))
    if recurrent:
        reports.append(CacheReport(CacheKind.RECURRENT, None, None, Rollback.NOT_YET))
    return tuple(reports)


def _heads(header: GgufHeader) -> HeadReport:
    if header.architecture in ASSISTANTS:
        unsupported = MtpCapability.unsupported(MtpCheckpointKind.SEPARATE, header.architecture)
        return HeadReport(0, 0, unsupported, "an assistant, which eredu does not run from GGUF yet")
    claimed = _number(header, "nextn_predict_layers", required=False) or 0
    found = sum(".nextn." in tensor.name for tensor in header.tensors)
    return judge_heads(header.architecture, claimed, found, runnable=False)
