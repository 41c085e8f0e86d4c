"""Inspection of checkpoints without loading weights, and whether an assistant fits a target."""
