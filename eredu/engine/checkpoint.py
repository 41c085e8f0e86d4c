"""Checkpoints in memory: a target or an assistant, loaded from a SafeTensors directory or a GGUF file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import mlx.core as mx

from eredu.checkpoints.assumptions import require_assumed
from eredu.checkpoints.config import read_config
from eredu.checkpoints.heads import head_names, head_report
from eredu.checkpoints.safetensors_header import read_directory_headers
from eredu.contract.errors import CapabilityError, CheckpointError, OptionError
from eredu.families.head_loading import load_heads
from eredu.families.mlx_lm_patches import mend_layers, mend_target
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.recurrence import recurrences_of
from eredu.mlx.adapter import LanguageModel, Split, cast_model, confirm_split, is_quantized, load_directory
from eredu.mlx.gguf import load_gguf
from eredu.mlx.recurrent import Recurrence
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
        path: Where it was loaded from.
        model: The decoder, weights evaluated.
        config: Its configuration under Hugging Face's keys.
        tokenizer: Its tokenizer, or None where only ids are wanted.
        quantized: Whether any layer holds quantised weights.
        heads: Its prediction heads, its own or put beside it; None where there are none.
    """

    path: Path
    model: LanguageModel
    config: dict[str, Any]
    tokenizer: Tokenizer | None
    quantized: bool
    heads: PredictionHeads | None = None

    @property
    def architecture(self) -> str:
        """Its `model_type`."""
        return str(self.config.get("model_type", "unknown"))

    @property
    def vocabulary_size(self) -> int:
        """Rows of its logits."""
        return int(self._value("vocab_size"))

    @property
    def context(self) -> int:
        """Tokens it can take as inputs."""
        text = self.config.get("text_config", {})
        found = self.config.get("max_position_embeddings", text.get("max_position_embeddings"))
        return UNLIMITED_CONTEXT if found is None else int(found)

    @cached_property
    def recurrences(self) -> Mapping[int, Recurrence]:
        """The recurrence of every layer that has one, by its place among the caches; its modules are tapped."""
        return recurrences_of(self.model)

    def _value(self, key: str) -> Any:
        found = self.config.get(key, self.config.get("text_config", {}).get(key))
        if found is None:
            raise CheckpointError(f"the configuration of {self.path} lacks '{key}'")
        return found


def load_checkpoint(
    path: Path,
    *,
    tokenizer: Tokenizer | None,
    dtype: str = "checkpoint",
    head: Path | None = None,
    with_heads: bool = True,
    split: Split | None = None,
) -> LoadedCheckpoint:
    """Load a decoder, with the prediction heads it has.

    Args:
        path: A Hugging Face directory, or a GGUF file of the llama family.
        tokenizer: Its tokenizer, given explicitly; None where only ids are wanted.
        dtype: One of `DTYPE_NAMES`; heads are cast alike.
        head: A directory of heads for it, taken instead of its own.
        with_heads: False leaves all heads aside.
        split: How several ranks hold the decoder; heads are whole on every rank. None for one process.

    Raises `CheckpointError` for files that are no such checkpoint, and for heads that are incomplete, dead or not this
    decoder's; `OptionError` for an unknown dtype; `CapabilityError` for a decoder that cannot be split so.
    """
    if dtype not in DTYPE_NAMES:
        raise OptionError(f"dtype was {dtype!r}; expected one of {', '.join(DTYPE_NAMES)}")
    place, wide = head, dtype == "float32"
    if path.is_dir():
        config_file = read_config(path)
        require_assumed(config_file)
        names = [tensor.name for tensor in read_directory_headers(path)]
        if head is None and with_heads and head_report(config_file, names).capability.is_ready:
            place = path
        apart = head_names(config_file, names).__contains__
        model, config = load_directory(path, apart=apart, wide=wide, split=split)
    elif split is not None:
        raise CapabilityError(f"{path} is no directory of SafeTensors, and only such a target is split over ranks")
    elif path.suffix == ".gguf" and path.is_file():
        model, config = load_gguf(path)
    else:
        raise CheckpointError(f"{path} is neither a directory with config.json nor a .gguf file")
    cast = _caster(dtype)
    model = cast(model)
    mend_target(model)
    if split is not None:
        confirm_split(model, split)
    heads = None
    if place is not None and with_heads:
        heads = load_heads(place, model, wide=wide)
        for module in heads.modules:
            cast(module)
            mend_layers(module)
    return LoadedCheckpoint(path, model, config, tokenizer, is_quantized(model), heads)


def _caster(dtype: str) -> Callable[[Any], Any]:
    """What brings a module to a dtype of `DTYPE_NAMES`."""
    if dtype == "checkpoint":
        return lambda module: module
    kind, dequantize = DTYPES[dtype.removeprefix(QUANTIZED)], not dtype.startswith(QUANTIZED)
    return lambda module: cast_model(module, kind, dequantize=dequantize)
