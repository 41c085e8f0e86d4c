"""Benchmarks: against the reference setting (lookahead off, speculation off) and against peers."""
