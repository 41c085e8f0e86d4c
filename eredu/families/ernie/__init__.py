"""ERNIE 4.5: experts chosen by scores with biases, and prediction heads under names that mlx-lm drops."""
