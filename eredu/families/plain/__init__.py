"""Families without prediction heads that differ in their caches alone."""
