"""Conversion: a checkpoint in MLX's layout, quantised or not, with the heads that mlx-lm's converter drops."""
