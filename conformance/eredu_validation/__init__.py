"""Validation of checkpoints: whether speculation changes the output of a real model, and what it gains."""
