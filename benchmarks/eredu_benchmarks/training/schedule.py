"""Learning rate over a phase of training: a short linear rise, then half a cosine down."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Schedule:
    """One phase.

    Attributes:
        steps: Steps planned.
        peak: Highest learning rate.
        seconds: The phase is cut short, its cosine with it, where the steps would take longer.
    """

    steps: int
    peak: float
    seconds: float = math.inf
    _begun: float = field(default_factory=time.monotonic)

    def progress(self, step: int) -> float:
        """Part of the phase that is over, 1 at its end."""
        return max(step / self.steps, (time.monotonic() - self._begun) / self.seconds)

    def rate(self, step: int) -> float:
        """Learning rate of a step; it rises for a twentieth of the steps, and ends at a hundredth of the peak."""
        falling = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, self.progress(step))))
        rise = max(1, min(200, self.steps // 20))
        return self.peak * min(1.0, (step + 1) / rise) * falling
