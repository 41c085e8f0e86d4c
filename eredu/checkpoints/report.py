"""What inspection says of one checkpoint: a value with a stable JSON form."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from eredu.checkpoints.caches import CacheReport, Rollback
from eredu.checkpoints.heads import HeadReport
from eredu.checkpoints.tensors import StoredTensor, bytes_by_dtype


@dataclass(frozen=True)
class CheckpointReport:
    """A checkpoint as its headers describe it.

    Attributes:
        path: Where it lies.
        container: `safetensors` or `gguf`.
        family: `model_type` of config.json, or `general.architecture` of GGUF.
        layers: Decoder layers.
        hidden_size: Width of the residual stream.
        attention_heads: Query heads; where layers differ, the most.
        key_value_heads: Key and value heads; where layers differ, the most.
        vocabulary_rows: Logit rows, padding rows included.
        context_limit: Tokens it was made for; None where the metadata do not say.
        tied_embeddings: Whether the output projection is the embedding.
        parameter_count: Weights, counted before quantisation packed them; None where the files do not say how many.
        quantization: How the weights are quantised, None where they are not.
        caches: What the layers remember, and whether it can be rolled back.
        heads: Prediction heads, claimed and found.
        tensors: Every stored tensor.
        not_loaded: Why eredu does not load it, in the words in which loading refuses it; None where it does.
    """

    path: str
    container: str
    family: str
    layers: int
    hidden_size: int
    attention_heads: int | None
    key_value_heads: int | None
    vocabulary_rows: int
    context_limit: int | None
    tied_embeddings: bool
    parameter_count: int | None
    quantization: str | None
    caches: tuple[CacheReport, ...]
    heads: HeadReport
    tensors: tuple[StoredTensor, ...]
    not_loaded: str | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.size_bytes for tensor in self.tensors)

    @property
    def rolls_back_exactly(self) -> bool:
        """Whether every cache can take back a rejected suffix at any time, so that the model may be a target."""
        return bool(self.caches) and all(cache.rollback is Rollback.EXACT for cache in self.caches)

    def to_json(self) -> dict[str, Any]:
        """The stable form. Tensors are counted, not listed."""
        described = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("caches", "heads", "tensors"):
            del described[name]
        return {
            **described,
            "size_bytes": self.size_bytes,
            "bytes_by_dtype": bytes_by_dtype(self.tensors),
            "tensor_count": len(self.tensors),
            "files": sorted({tensor.file for tensor in self.tensors}),
            "caches": [cache.to_json() for cache in self.caches],
            "rolls_back_exactly": self.rolls_back_exactly,
            "mtp": self.heads.to_json(),
        }
