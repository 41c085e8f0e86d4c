"""Patches of mlx-lm's LongCat-Flash: the norms of its latents, and latent attention in blocks as in rows."""

from __future__ import annotations

from typing import Any

from eredu.families.latent_rows import latent_rows
from eredu.families.mlx_lm_patches import Patch

LATENT_NORM_EPS = 1e-6
"""Of the published modelling code, which Transformers follows."""


def _set_latent_norms(attention: Any) -> None:
    attention.kv_a_layernorm.eps = LATENT_NORM_EPS
    if attention.q_lora_rank is not None:
        attention.q_a_layernorm.eps = LATENT_NORM_EPS


PATCHES = (
    Patch(
        name="latent norms",
        reason="mlx-lm norms LongCat's latents with an epsilon of 1e-5; the published one is 1e-6.",
        classes=("longcat_flash.LongcatFlashMLA",),
        change=_set_latent_norms,
    ),
    latent_rows("longcat_flash.LongcatFlashMLA"),
)
