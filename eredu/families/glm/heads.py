"""Heads of GLM-4.5 to 5, with attention and a mixture of experts of their own.

Source: the releases' tensor names, and Transformers' `MtpModel`, which runs them as it runs DeepSeek V3's.
"""

from eredu.families.extra_layers import load_extra_layers as load_heads

__all__ = ["load_heads"]
