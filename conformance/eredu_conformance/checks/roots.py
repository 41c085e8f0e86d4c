"""Seeds of requests: a pure function of the seed of the run, the check and the request's number."""

from __future__ import annotations

import hashlib


def root(seed: int, check: str, *numbers: int) -> int:
    """A 64-bit seed; different arguments give unrelated ones."""
    text = "/".join([str(seed), check, *map(str, numbers)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
