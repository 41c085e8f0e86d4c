"""Caches whose rollback is exact, a kind a file, and all of them of one sequence together."""
