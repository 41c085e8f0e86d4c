"""What of the target a drafter is given in one call: what it reads, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eredu.contract.drafter import Drafter
from eredu.contract.errors import CapabilityError
from eredu.drafters.draft_block import MlxBlock
from eredu.mlx.caches.sequence import SequenceCache
from eredu.mlx.taps import Recording


@dataclass(frozen=True, slots=True)
class TargetView:
    """Parts of the target's state; see `Drafter` for what they hold in which call.

    A drafter that asks for what it did not declare, or not in this call, gets a `CapabilityError`.
    """

    recorded: Recording | None = None
    held: SequenceCache | None = None

    @property
    def rows(self) -> Recording:
        """What the tapped modules saw: a row for each input, and on CUDA perhaps padding behind those of a prompt."""
        if self.recorded is None:
            raise CapabilityError("no hidden rows are handed over in this call; a drafter declares Reads.HIDDEN")
        return self.recorded

    @property
    def cache(self) -> SequenceCache:
        """The target's cache, to be read and not fed."""
        if self.held is None:
            raise CapabilityError("the target's cache is not handed over; a drafter declares Reads.CACHE")
        return self.held


MlxDrafter = Drafter[Any, MlxBlock, TargetView]
"""A drafter on MLX, whatever its state."""
