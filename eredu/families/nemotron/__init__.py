"""Nemotron-H: state space, attention and latent experts, heads as short patterns of blocks."""
