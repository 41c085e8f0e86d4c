"""A config.json as a decoder's class is to read it, whatever its writer put where."""

from __future__ import annotations

from typing import Any

from eredu.checkpoints.agreement import TIED
from eredu.checkpoints.config import NESTED, ModelConfig
from eredu.checkpoints.quantisation import Quantisation, with_quantisation
from eredu.checkpoints.rotary import with_flat_rotary

DTYPE_KEYS = ("dtype", "torch_dtype")
READ_DTYPES = ("bfloat16", "float16", "float32")


def decoder_config(config: ModelConfig, *, tied: bool, quantisation: Quantisation | None) -> dict[str, Any]:
    """The config with both levels alike, rotary settings in either form, and tying as it was decided.

    Of quantisation it says what mlx-lm is to unpack, and nothing that is done before.
    """
    merged = config.merged
    nested = merged.get(NESTED)
    said = {**merged, TIED: tied, **({NESTED: {**nested, TIED: tied}} if isinstance(nested, dict) else {})}
    said = with_flat_rotary(said)
    if quantisation is not None and quantisation.handed_on:
        return said
    return with_quantisation(said, None if quantisation is None else quantisation.by_mlx)


def stated_dtype(config: ModelConfig) -> str:
    """Floating-point type that a config names, else bfloat16: in it, weights in eight bits are read."""
    stated = (level.get(key) for level in (config.decoder, config.values) for key in DTYPE_KEYS)
    return next((each for each in stated if each in READ_DTYPES), READ_DTYPES[0])
