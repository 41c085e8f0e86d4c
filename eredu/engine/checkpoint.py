"""Checkpoints in memory: a target or an assistant, loaded from a SafeTensors directory or a GGUF file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import mlx.core as mx

from eredu.checkpoints.directory import OpenedDirectory
from eredu.checkpoints.gguf_file import OpenedGguf
from eredu.checkpoints.heads import HeadReport
from eredu.checkpoints.opening import OpenedCheckpoint, open_checkpoint, require_same_width
from eredu.contract.errors import CapabilityError, EreduError, OptionError
from eredu.families.head_loading import load_heads
from eredu.families.mlx_lm_patches import patch_layers, patch_target
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.recurrence import recurrences_of
from eredu.mlx.adapter import (
    LanguageModel,
    Split,
    build_directory,
    cast_model,
    confirm_split,
    is_quantized,
    load_directory,
)
from eredu.mlx.caches.recurrent import Recurrence
from eredu.mlx.gguf import load_gguf
from eredu.text.tokenizer import Tokenizer

DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}
"""Floating-point types by name."""

QUANTIZED = "quantized-"
"""Prefix of a dtype's name that keeps quantised layers as they are."""

DTYPE_NAMES = ("checkpoint", *DTYPES, *(f"{QUANTIZED}{name}" for name in DTYPES))
"""What `dtype` may be. `checkpoint` keeps what the files hold; a type casts and dequantises; `quantized-` and a type
casts what is not quantised."""

UNLIMITED_CONTEXT = 2**31 - 1


@dataclass(frozen=True)
class LoadedCheckpoint:
    """A decoder in memory with what its files say of it.

    Attributes:
        opened: The files it was loaded from.
        model: The decoder, weights evaluated.
        tokenizer: Its tokenizer, or None where only ids are wanted.
        quantized: Whether any layer holds quantised weights.
        heads: Its prediction heads, its own or put beside it; None where there are none.
        unused: What the checkpoint says of heads where none were loaded; None where some were, or were left aside.
    """

    opened: OpenedCheckpoint
    model: LanguageModel
    tokenizer: Tokenizer | None
    quantized: bool
    heads: PredictionHeads | None = None
    unused: HeadReport | None = None

    @property
    def path(self) -> Path:
        """Where it was loaded from."""
        return self.opened.path

    @property
    def architecture(self) -> str:
        """Its `model_type`, or the architecture that a GGUF names."""
        return self.opened.architecture

    @property
    def vocabulary_size(self) -> int:
        """Rows of its logits."""
        return self.opened.vocabulary_rows

    @property
    def context(self) -> int:
        """Tokens it can take as inputs."""
        limit = self.opened.context_limit
        return UNLIMITED_CONTEXT if limit is None else limit

    @cached_property
    def recurrences(self) -> Mapping[int, Recurrence]:
        """The recurrence of every layer that has one, by its place among the caches; its modules are tapped."""
        return recurrences_of(self.model)


def load_checkpoint(
    source: OpenedCheckpoint | Path,
    *,
    tokenizer: Tokenizer | None,
    dtype: str = "checkpoint",
    head: OpenedCheckpoint | Path | None = None,
    with_heads: bool = True,
    split: Split | None = None,
) -> LoadedCheckpoint:
    """Load a decoder, with the prediction heads it has.

    Args:
        source: A Hugging Face directory, or a GGUF file of the llama family; opened already, or its path.
        tokenizer: Its tokenizer, given explicitly; None where only ids are wanted.
        dtype: One of `DTYPE_NAMES`; heads are cast alike.
        head: A directory of heads for it, likewise, taken instead of its own.
        with_heads: False leaves all heads aside.
        split: How several ranks hold the decoder; heads are whole on every rank. None for one process.

    Raises `CheckpointError` for files that are no such checkpoint, and for heads that are incomplete, dead or not this
    decoder's; `OptionError` for an unknown dtype; `CapabilityError` for a decoder that cannot be split so.
    """
    if dtype not in DTYPE_NAMES:
        raise OptionError(f"dtype was {dtype!r}; expected one of {', '.join(DTYPE_NAMES)}")
    opened, cast, floats = _opened(source), _caster(dtype), _floats(dtype)
    if isinstance(opened, OpenedDirectory):
        opened.check()
        opened.require_assumed()
    elif split is not None:
        raise CapabilityError(f"{opened.path} is no directory of SafeTensors, and only such a target is split")
    beside = None if head is None else _opened(head)
    if beside is not None:
        require_same_width(opened, beside)
    if with_heads and beside is None and opened.heads.capability.is_ready:
        beside = opened
    model = cast(_load_decoder(opened, dtype=floats, split=split))
    patch_target(model)
    if split is not None:
        confirm_split(model, split)
    heads = load_heads(beside, model, dtype=floats) if with_heads and beside is not None else None
    for module in () if heads is None else heads.modules:
        cast(module)
        patch_layers(module)
    unused = opened.heads if with_heads and heads is None else None
    return LoadedCheckpoint(opened, model, tokenizer, is_quantized(model), heads, unused)


def why_not_loaded(opened: OpenedCheckpoint) -> str | None:
    """Why a checkpoint cannot be loaded, in the words in which loading refuses it; None where it can.

    Builds the decoder with its weights unread, so that a config of other shapes than the files' shows.
    """
    if not isinstance(opened, OpenedDirectory):
        return opened.not_loaded
    if opened.config.holds_heads_alone or (opened.family and opened.architecture in opened.family.assistants):
        return None
    try:
        _ = opened.tokenizer
        opened.check()
        opened.require_assumed()
        build_directory(opened, apart=opened.head_names.__contains__)
    except EreduError as error:
        return str(error)
    return None


def _opened(given: OpenedCheckpoint | Path) -> OpenedCheckpoint:
    return open_checkpoint(given) if isinstance(given, Path) else given


def _load_decoder(opened: OpenedCheckpoint, *, dtype: str | None, split: Split | None) -> LanguageModel:
    """The decoder alone: tensors of heads are not its own."""
    match opened:
        case OpenedDirectory():
            return load_directory(opened, apart=opened.head_names.__contains__, dtype=dtype, split=split)[0]
        case OpenedGguf():
            return load_gguf(opened.header)[0]


def _floats(dtype: str) -> str | None:
    """Type that floats are cast to, None for `checkpoint`."""
    return None if dtype == "checkpoint" else dtype.removeprefix(QUANTIZED)


def _caster(dtype: str) -> Callable[[Any], Any]:
    """What brings a module to a dtype of `DTYPE_NAMES`."""
    if dtype == "checkpoint":
        return lambda module: module
    kind, dequantize = DTYPES[dtype.removeprefix(QUANTIZED)], not dtype.startswith(QUANTIZED)
    return lambda module: cast_model(module, kind, dequantize=dequantize)
