"""Families of models: a folder each, one registry of their facts, and what their heads share (see README.md)."""
