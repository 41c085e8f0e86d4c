"""Patches of mlx-lm's GLM-4.5 and GLM-4.7-Flash: group routing, and latent attention in blocks as in rows.

The releases have one group, and a config may have more. GLM-5 is built of mlx-lm's modules of DeepSeek V3.2, and is
patched as they are (`eredu.families.deepseek.patches`).
"""

from __future__ import annotations

from eredu.families.latent_rows import latent_rows
from eredu.families.routing import group_routing

PATCHES = (
    group_routing("glm4_moe.MoEGate", "glm4_moe_lite.MoEGate"),
    latent_rows("glm4_moe_lite.Glm4MoeLiteAttention"),
)
