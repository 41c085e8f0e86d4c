"""Inkling: attention with convolution tails; heads that eredu does not run yet."""
