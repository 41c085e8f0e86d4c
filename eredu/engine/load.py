"""Loading by name or path: the two calls most users need."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from eredu.checkpoints.opening import open_named
from eredu.engine.checkpoint import load_checkpoint
from eredu.engine.mlx_backend import Assistant, MlxBackend
from eredu.engine.probe import settle_heads
from eredu.loaded import LoadedModel
from eredu.mlx.adapter import Split
from eredu.mlx.placement import Placement
from eredu.text.tokenizer import Tokenizer


def load_target(
    name: str | Path,
    *,
    tokenizer: Tokenizer | None = None,
    dtype: str = "checkpoint",
    placement: str = "auto",
    head: str | Path | None = None,
    with_heads: bool = True,
    settle: bool = True,
    split: Split | None = None,
) -> LoadedModel[MlxBackend]:
    """Load a target, with the prediction heads it has.

    Heads whose checkpoint states no wiring are probed on a short text at the first load: see `eredu.engine.probe`.

    Args:
        name: A Hugging Face directory, a GGUF file, or a name such as `smollm2`.
        tokenizer: Its tokenizer; None reads the one in the checkpoint.
        dtype: `checkpoint` keeps what the files hold; `float32`, `float16`, `bfloat16` cast and dequantise;
            `quantized-float16` and its like keep quantised layers and cast the rest.
        placement: How target and drafter share the machine: `auto`, `one-stream`, `two-streams`, `two-devices`.
        head: A directory of prediction heads for the target (see `eredu.families`), taken instead of its own.
        with_heads: False leaves all heads aside.
        settle: False leaves heads with their family's default wiring, unprobed.
        split: How several ranks hold the target, each of which makes this call; None for one process.

    Raises `CheckpointError`, `TokenizerError` or `OptionError` with what to do.
    """
    chosen = Placement.choose(placement)
    opened = open_named(name)
    checkpoint = load_checkpoint(
        opened,
        tokenizer=tokenizer or opened.tokenizer,
        dtype=dtype,
        head=None if head is None else open_named(head),
        with_heads=with_heads,
        split=split,
    )
    backend = MlxBackend(checkpoint, chosen)
    heads = settle_heads(checkpoint, backend.target_model) if settle else checkpoint.heads
    return LoadedModel(backend if heads is checkpoint.heads else MlxBackend(replace(checkpoint, heads=heads), chosen))


def load_assistant(name: str | Path, *, tokenizer: Tokenizer, dtype: str = "checkpoint") -> Assistant:
    """Load an independent draft model.

    Args:
        name: As in `load`.
        tokenizer: The assistant's own tokenizer, given explicitly: it is compared with the target's, id by id, when
            the two meet.
        dtype: As in `load`.

    Raises `CheckpointError` or `OptionError` with what to do.
    """
    return Assistant(load_checkpoint(open_named(name), tokenizer=tokenizer, dtype=dtype, with_heads=False))
