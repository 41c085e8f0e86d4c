"""A GGUF file, opened: the metadata's own keys, the same for every architecture that is known."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from eredu.checkpoints.caches import FULL, CacheKind, CacheReport, Rollback, summarize_caches
from eredu.checkpoints.config import MAX_COUNT, MAX_LAYERS
from eredu.checkpoints.family import Family
from eredu.checkpoints.gguf_header import GgufHeader
from eredu.checkpoints.gguf_llama import llama_config
from eredu.checkpoints.gguf_types import require_decodable
from eredu.checkpoints.heads import HeadReport, assistant_report, judge_claim
from eredu.checkpoints.report import CheckpointReport
from eredu.checkpoints.tensors import StoredTensor
from eredu.contract.errors import CheckpointError, TokenizerError
from eredu.families.registry import ARCHITECTURES
from eredu.text.gguf import load_metadata
from eredu.text.tokenizer import Tokenizer

WHOLE_PRECISION = frozenset({"F32", "F16", "BF16", "F64"})


@dataclass(frozen=True)
class OpenedGguf:
    """One file, with the facts of an `OpenedDirectory`; members raise `CheckpointError` where it lacks them.

    Attributes:
        path: Where it lies.
        header: Its metadata and tensors.
    """

    path: Path
    header: GgufHeader

    @property
    def architecture(self) -> str:
        """`general.architecture`."""
        return self.header.architecture

    @property
    def family(self) -> Family | None:
        """The family's facts."""
        return ARCHITECTURES.get(self.architecture)

    @property
    def tensors(self) -> tuple[StoredTensor, ...]:
        """Tensors in the order of the file."""
        return self.header.tensors

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Of the metadata `tokenizer.ggml.*`."""
        try:
            return load_metadata(self.header.metadata)
        except TokenizerError as error:
            raise TokenizerError(f"{self.path}: {error}") from error

    @property
    def vocabulary_rows(self) -> int:
        """Rows of the embedding, or tokens where it is not there."""
        embedding = next((tensor for tensor in self.tensors if tensor.name == "token_embd.weight"), None)
        if embedding is not None and embedding.shape:
            return embedding.shape[0]
        tokens = self.header.metadata.get("tokenizer.ggml.tokens")
        if not isinstance(tokens, list):
            raise CheckpointError(
                f"{self.path} has neither a matrix token_embd.weight nor tokens; expected a language model"
            )
        return len(tokens)

    @property
    def hidden_size(self) -> int:
        """`embedding_length`: width of the residual stream."""
        return self._required("embedding_length")

    @property
    def context_limit(self) -> int | None:
        """`context_length` of the architecture."""
        return self._number("context_length")

    @property
    def quantization(self) -> str | None:
        """The GGML type of most weights, and how many tensors have it."""
        weights: Counter[str] = Counter()
        for tensor in self.tensors:
            weights[tensor.dtype] += tensor.element_count
        quantized = [kind for kind, _ in weights.most_common() if kind not in WHOLE_PRECISION]
        if not quantized:
            return None
        counts = Counter(tensor.dtype for tensor in self.tensors)
        return ", ".join(f"{kind} ({counts[kind]} of {len(self.tensors)} tensors)" for kind in quantized)

    @property
    def caches(self) -> tuple[CacheReport, ...]:
        """Kinds of cache. Which layers have which is the runtime's to know, so those of mixed files are not counted."""
        family = self.family
        if family is None:
            raise CheckpointError(
                f"{self.path} holds the architecture {self.architecture!r}, whose caches eredu does not know; known "
                f"are {', '.join(sorted(ARCHITECTURES))}"
            )
        if self.architecture in family.gguf_assistants:
            return ()
        window = self._number("attention.sliding_window")
        recurrent = any(key.startswith(f"{self.architecture}.ssm.") for key in self.header.metadata)
        if family.gguf_cache is not None or not (window or recurrent):
            return summarize_caches([family.gguf_cache or FULL] * self._required("block_count"))
        reports = [CacheReport(CacheKind.FULL, None, None, Rollback.EXACT)]
        if window:
            reports.append(CacheReport(CacheKind.WINDOW, None, window, Rollback.EXACT))
        if recurrent:
            reports.append(CacheReport(CacheKind.RECURRENT, None, None, Rollback.NOT_YET))
        return tuple(reports)

    @cached_property
    def heads(self) -> HeadReport:
        """What is claimed and found; eredu runs none from a GGUF yet."""
        if self.family is not None and self.architecture in self.family.gguf_assistants:
            return assistant_report(self.architecture, "an assistant, which eredu does not run from GGUF yet")
        claimed = self._number("nextn_predict_layers") or 0
        found = sum(".nextn." in tensor.name for tensor in self.tensors)
        return judge_claim(self.architecture, claimed, found, unrun="eredu runs heads of SafeTensors directories alone")

    @property
    def not_loaded(self) -> str | None:
        """Why it cannot be loaded, tokenizer and all, in the words of loading; None where it can."""
        try:
            llama_config(self.header)
            require_decodable(self.header)
            _ = self.tokenizer
        except (CheckpointError, TokenizerError) as error:
            return str(error)
        return None

    def report(self) -> CheckpointReport:
        """What inspection says of it. Raises `CheckpointError` for an unknown architecture."""
        self.header.require_model()
        caches, attention_heads = self.caches, self._number("attention.head_count")
        return CheckpointReport(
            path=str(self.path),
            container="gguf",
            family=self.architecture,
            layers=self._required("block_count"),
            hidden_size=self.hidden_size,
            attention_heads=attention_heads,
            key_value_heads=self._number("attention.head_count_kv") or attention_heads,
            vocabulary_rows=self.vocabulary_rows,
            context_limit=self.context_limit,
            tied_embeddings=all(tensor.name != "output.weight" for tensor in self.tensors),
            parameter_count=sum(tensor.element_count for tensor in self.tensors),
            quantization=self.quantization,
            caches=caches,
            heads=self.heads,
            tensors=self.tensors,
            not_loaded=self.not_loaded,
        )

    def _required(self, key: str) -> int:
        return self._number(key, required=True) or 0

    def _number(self, key: str, *, required: bool = False) -> int | None:
        """A count of the architecture; where layers differ, the largest. Raises `CheckpointError` on other values."""
        value: Any = self.header.metadata.get(f"{self.architecture}.{key}")
        if value is None and not required:
            return None
        if isinstance(value, list):
            value = max(value, default=None)
        most = MAX_LAYERS if key == "block_count" else MAX_COUNT
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise CheckpointError(
                f"{self.path} gives {self.architecture}.{key} as {value!r}; expected a whole number from 0 to {most}: "
                "the file is incomplete or damaged"
            )
        return value
