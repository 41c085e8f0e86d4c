"""Heads of DeepSeek V3, R1 and V3.2, with latent attention and a mixture of experts of their own."""

from eredu.families.extra_layers import load_extra_layers as load_heads

__all__ = ["load_heads"]
