"""Patch of mlx-lm's K-EXAONE: group routing. The release has one group, and a config may have more."""

from __future__ import annotations

from eredu.families.routing import group_routing

PATCHES = (group_routing("exaone_moe.MoEGate"),)
