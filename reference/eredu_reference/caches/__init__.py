"""Caches of several kinds. Each holds what its model reads, and nothing else decides the next row."""

from eredu_reference.caches.cache import Cache, CacheRow, Hidden
from eredu_reference.caches.full import FullCache
from eredu_reference.caches.pooled import PooledCache
from eredu_reference.caches.recurrent import RecurrentCache
from eredu_reference.caches.window import WindowCache

__all__ = ["Cache", "CacheRow", "FullCache", "Hidden", "PooledCache", "RecurrentCache", "WindowCache"]
