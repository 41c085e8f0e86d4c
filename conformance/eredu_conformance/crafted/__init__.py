"""Crafted checkpoints: real directories that any engine loads, whose next-token law is known exactly."""

from eredu_conformance.crafted.architecture import Architecture
from eredu_conformance.crafted.bigram import BigramCheckpoint
from eredu_conformance.crafted.catalogue import crafted_checkpoints, crafted_pair, crafted_pairs
from eredu_conformance.crafted.checkpoint import CraftedCheckpoint, HistoryError
from eredu_conformance.crafted.lag import LagCheckpoint
from eredu_conformance.crafted.memory import MemoryCheckpoint
from eredu_conformance.crafted.pair import CheckpointPair, PairDirectories
from eredu_conformance.crafted.position import PositionCheckpoint

__all__ = [
    "Architecture",
    "BigramCheckpoint",
    "CheckpointPair",
    "CraftedCheckpoint",
    "HistoryError",
    "LagCheckpoint",
    "MemoryCheckpoint",
    "PairDirectories",
    "PositionCheckpoint",
    "crafted_checkpoints",
    "crafted_pair",
    "crafted_pairs",
]
