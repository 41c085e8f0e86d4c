"""Reuse of a finished request's caches by a later one that starts with the same tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

from eredu_reference.caches import Cache, Hidden
from eredu_reference.frontier import Frontier


@dataclass(frozen=True)
class PrefixEntry:
    """What a request left behind.

    Attributes:
        tokens: The inputs that the target's cache holds.
        cache: The target's cache.
        hiddens: The target's hidden state behind each input.
        frontier: The drafter's frontier, or None.
    """

    tokens: tuple[int, ...]
    cache: Cache
    hiddens: tuple[Hidden, ...]
    frontier: Frontier | None


def copy_entry(entry: PrefixEntry) -> PrefixEntry:
    """An entry whose caches are its own."""
    frontier = None if entry.frontier is None else entry.frontier.copy()
    return PrefixEntry(entry.tokens, entry.cache.copy(), entry.hiddens, frontier)


def serves(entry: PrefixEntry, prompt: tuple[int, ...]) -> bool:
    """Whether the whole entry is a beginning of what the prefill would feed; half an entry is never used."""
    return len(entry.tokens) < len(prompt) and prompt[: len(entry.tokens)] == entry.tokens


@dataclass
class PrefixStore:
    """Entries of finished requests. Nothing that is taken out is shared with what stays in."""

    entries: list[PrefixEntry] = field(default_factory=list)
