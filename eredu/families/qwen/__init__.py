"""Qwen3-Next and Qwen3.5: gated delta and gated attention layers, heads that fuse in front of one layer."""
