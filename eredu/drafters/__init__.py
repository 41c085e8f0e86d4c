"""Drafters: what proposes tokens to the executor, one file each."""
