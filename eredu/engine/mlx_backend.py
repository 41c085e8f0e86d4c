"""The MLX backend: lends executors for a target, alone, with a separate assistant, or with heads of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from eredu.checkpoints.matching import ModelSide, match_assistant
from eredu.contract.backend import SpeculativeGenerationBackend
from eredu.contract.capability import MtpCapability, MtpCheckpointKind
from eredu.contract.errors import CapabilityError, TokenizerError
from eredu.contract.terminal import OutputText
from eredu.drafters.assistant import AssistantDrafter
from eredu.drafters.heads import HeadsDrafter
from eredu.drafters.lookup import LookupDrafter
from eredu.drafters.none import NoDrafter
from eredu.drafters.target_view import MlxDrafter
from eredu.engine.checkpoint import LoadedCheckpoint
from eredu.engine.executor import MlxExecutor
from eredu.families.registry import LENDING
from eredu.mlx.adapter import class_of, patch_attention
from eredu.mlx.caches.full import RollbackCache
from eredu.mlx.caches.recurrent import TARGET_FEEDS
from eredu.mlx.caches.row import RowCache
from eredu.mlx.caches.sequence import SequenceCache
from eredu.mlx.models import DRAFTER_FEEDS, FittedModel
from eredu.mlx.placement import Placement, on_cuda
from eredu.text.tokenizer import Tokenizer

CUDA_BUCKET = 512
"""Padding of attention lengths on CUDA, measured: see `benchmarks/README.md`."""


@dataclass(frozen=True)
class Assistant:
    """An independent draft model with a tokenizer of its own: a drafter of `MlxBackend`."""

    checkpoint: LoadedCheckpoint


@dataclass(frozen=True)
class Lookup:
    """Suffix lookup in prompt and output, which needs no model: the other drafter of `MlxBackend`."""


@dataclass(frozen=True)
class MlxBackend(SpeculativeGenerationBackend[Assistant | Lookup]):
    """Decoding on MLX: Metal, CUDA or CPU, whichever MLX was built for.

    Attributes:
        target: The loaded target.
        placement: Streams of target and drafter.
    """

    target: LoadedCheckpoint
    placement: Placement
    _fitted: dict[int, tuple[Assistant, FittedModel]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def name(self) -> str:
        """What the backend runs on."""
        return f"MLX on {self.placement.target_device}"

    @property
    def eos_ids(self) -> frozenset[int]:
        """The checkpoint's end-of-sequence ids."""
        return frozenset() if self.target.tokenizer is None else self.target.tokenizer.eos_ids

    def output_text(self, stop_strings: Sequence[str]) -> OutputText | None:
        """Streaming text with the target's tokenizer."""
        return None if self.target.tokenizer is None else self.target.tokenizer.stream(stop_strings)

    def mtp_capability(self, drafter: Assistant | Lookup | None) -> MtpCapability:
        """Ready where there is a drafter, and every cache in use rolls back exactly."""
        checkpoints = [self.target]
        match drafter:
            case None:
                if self.target.heads is None:
                    return MtpCapability.unavailable()
                kind = MtpCheckpointKind.EMBEDDED
            case Assistant(checkpoint=checkpoint):
                kind = MtpCheckpointKind.SEPARATE
                checkpoints.append(checkpoint)
            case Lookup():
                kind = MtpCheckpointKind.NONE
        for checkpoint in checkpoints:
            if _kinds_without_rollback(checkpoint):
                return MtpCapability.unsupported(kind, checkpoint.architecture)
        return MtpCapability.ready(kind)

    @contextmanager
    def plain_executor(self) -> Iterator[MlxExecutor]:
        """An executor that proposes nothing."""
        yield MlxExecutor(self.target_model, NoDrafter(), self.placement)

    @contextmanager
    def speculative_executor(self, drafter: Assistant | Lookup | None) -> Iterator[MlxExecutor]:
        """An executor that proposes with an assistant, by lookup, or (None) with the target's heads.

        Raises `CapabilityError` where a cache cannot be rolled back exactly, `TokenizerError` where the assistant's
        tokenizer is not the target's.
        """
        # rule: capability.no-silent-fallback, rollback.exact-state
        _require_rollback("target", self.target)
        yield MlxExecutor(self.target_model, self.make_drafter(drafter), self.placement)

    def make_drafter(self, drafter: Assistant | Lookup | None) -> MlxDrafter:
        """The drafter that a caller means; raises as `speculative_executor`. Here alone their kinds are told apart."""
        match drafter:
            case None:
                if self.target.heads is None:
                    raise CapabilityError("this target has no heads that eredu can use; give an assistant")
                return HeadsDrafter(self.target.heads, self.target_model, self.placement)
            case Assistant(checkpoint=checkpoint):
                _require_rollback("assistant", checkpoint)
                return AssistantDrafter(self.assistant_model(drafter), self.placement)
            case Lookup():
                return LookupDrafter(self.target_model.vocabulary_size)

    @cached_property
    def target_model(self) -> FittedModel:
        """The target, ready to be fed. Made once: large vocabularies take a while to go through."""
        tokenizer = self.target.tokenizer
        padding = () if tokenizer is None else tokenizer.vocabulary.padding_ids(self.target.vocabulary_size)
        return self._ready(self.target, padding)

    def assistant_model(self, drafter: Assistant) -> FittedModel:
        """The assistant, ready to be fed, its rows fitted to the target's; the last one asked for is kept.

        Raises `TokenizerError` where its tokenizer is not the target's, `CheckpointError` where one has too few rows.
        """
        kept = self._fitted.get(id(drafter))
        if kept is None:
            kept = drafter, self._fit(drafter)
            self._fitted.clear()
            self._fitted[id(drafter)] = kept
        return kept[1]

    def _fit(self, drafter: Assistant) -> FittedModel:
        checkpoint = drafter.checkpoint
        proposable = self.target.vocabulary_size
        padding: tuple[int, ...] = ()
        if self.target.tokenizer is not None and checkpoint.tokenizer is not None:
            # rule: capability.same-vocabulary
            sides = _side(self.target, self.target.tokenizer), _side(checkpoint, checkpoint.tokenizer)
            proposable = match_assistant(*sides).proposable_rows
            padding = self.target.tokenizer.vocabulary.padding_ids(proposable)
        elif self.target.tokenizer is not checkpoint.tokenizer:
            raise TokenizerError("only one of target and assistant was given a tokenizer; give both, or neither")
        elif self.target.vocabulary_size != checkpoint.vocabulary_size:
            raise TokenizerError(
                f"without tokenizers, the assistant's {checkpoint.vocabulary_size} logit rows must be the target's "
                f"{self.target.vocabulary_size}"
            )
        return self._ready(checkpoint, padding, proposable=proposable, journal_feeds=DRAFTER_FEEDS)

    def _ready(
        self,
        checkpoint: LoadedCheckpoint,
        padding: tuple[int, ...],
        *,
        proposable: int | None = None,
        journal_feeds: int = TARGET_FEEDS,
    ) -> FittedModel:
        return FittedModel(
            checkpoint.model,
            self.target.vocabulary_size,
            checkpoint.context,
            attention_bucket(),
            padding,
            checkpoint.recurrences,
            attention_cache(checkpoint),
            proposable,
            journal_feeds,
        )


def _side(checkpoint: LoadedCheckpoint, tokenizer: Tokenizer) -> ModelSide:
    opened = checkpoint.opened
    return ModelSide(str(checkpoint.path), tokenizer.vocabulary, opened.vocabulary_rows, opened.context_limit)


def attention_bucket() -> int | None:
    """Padding of attention lengths on this machine: only CUDA plans anew for each length."""
    return CUDA_BUCKET if on_cuda() else None


def attention_cache(checkpoint: LoadedCheckpoint) -> type[RollbackCache]:
    """Cache of its full-attention layers: on CUDA one that attends for itself, where the family lends its attention."""
    decoder, _, _ = class_of(checkpoint.model).partition(".")
    if attention_bucket() is None or decoder not in LENDING:
        return RollbackCache
    patch_attention(checkpoint.model)
    return RowCache


def _kinds_without_rollback(checkpoint: LoadedCheckpoint) -> frozenset[str]:
    return SequenceCache(checkpoint.model, recurrences=checkpoint.recurrences).kinds_without_rollback


def _require_rollback(role: str, checkpoint: LoadedCheckpoint) -> None:
    kinds = _kinds_without_rollback(checkpoint)
    if kinds:
        raise CapabilityError(
            f"the {role} in {checkpoint.path} ({checkpoint.architecture}) has caches of kind "
            f"{', '.join(sorted(kinds))}, which cannot be rolled back exactly yet, so speculation could change "
            "its output; decode it plainly"
        )
