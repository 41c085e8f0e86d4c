"""eredu: lossless multi-token prediction for MLX."""
