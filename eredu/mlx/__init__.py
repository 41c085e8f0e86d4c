"""The MLX pieces: the mlx-lm adapter, caches with exact rollback, row sampling, acceptance, placement."""
