"""Loading, executors, and the MLX backend that lends them to the scheduler."""
