"""Engines as subjects: the one place where the suite imports an engine."""
