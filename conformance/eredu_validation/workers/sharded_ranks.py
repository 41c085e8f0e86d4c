"""Ranks that hold one target together do the same at the same time, because each feed needs all of them.

Rank 0 decides and keeps the evidence; before each step it tells the others which. They draw with the same seeds and
so the same tokens, which is checked behind every step.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import mlx.core as mx
import numpy as np

from eredu.contract.errors import EreduError
from eredu_validation.measures.inside import Split
from eredu_validation.workers.ranks import share
from eredu_validation.workers.work_plan import Portion
from eredu_validation.workers.worker import Draw

NUMBERS = 6
"""Numbers that go with a step: the two halves of a seed, the part, and the portion's three."""


class RankTask(IntEnum):
    """What all ranks do next."""

    END = 0
    PARTS = 1
    FEED = 2
    DRAW = 3


@dataclass(frozen=True)
class ShardedRanks:
    """The ranks that hold one target.

    Attributes:
        group: These ranks, as MLX connects them.
    """

    group: mx.distributed.Group

    @property
    def leads(self) -> bool:
        """Whether this is rank 0."""
        return self.group.rank() == 0

    def split(self, kind: str) -> Split:
        """How the ranks hold the target."""
        return Split(kind, self.group)

    def tell(self, step: RankTask, *numbers: int) -> None:
        """On rank 0: tell the others what comes next. On others nothing, for they were told."""
        if self.leads:
            share(self.group, [step, *numbers, *[0] * (NUMBERS - len(numbers))])

    def tell_draw(self, seed: int, part: int, portion: Portion) -> None:
        """On rank 0: a portion is drawn next."""
        self.tell(RankTask.DRAW, seed >> 32, seed & 0xFFFFFFFF, part, portion.first, portion.count, portion.length)

    def same_seed(self, seed: int) -> int:
        """Rank 0's seed, on every rank."""
        high, low = share(self.group, [seed >> 32, seed & 0xFFFFFFFF])
        return high << 32 | low

    def require_agreement(self, ids: Sequence[int]) -> None:
        """Raise `EreduError` on every rank unless all drew the same tokens."""
        digest = mx.array([zlib.crc32(np.array(ids, dtype=np.int64).tobytes())], dtype=mx.uint32)
        digests = np.array(mx.distributed.all_gather(digest, group=self.group, stream=mx.cpu))
        if len(set(digests.tolist())) > 1:
            raise EreduError(
                "the ranks that hold this target drew different tokens from one seed, so they are no longer in step; "
                "ranks must be machines of one kind with the same versions"
            )

    def follow(self, *, measure: Callable[[], object], feed: Callable[[], object], draw: Draw) -> None:
        """On other ranks than the first: do what rank 0 says until it says that it is over, or is gone.

        Args:
            measure: Measures the parts.
            feed: Feeds the target one token.
            draw: Draws a portion.
        """
        while True:
            step, *numbers = share(self.group, [0] * (1 + NUMBERS))
            match step:
                case RankTask.PARTS:
                    measure()
                case RankTask.FEED:
                    feed()
                case RankTask.DRAW:
                    high, low, part, first, count, length = numbers
                    draw(high << 32 | low, part, Portion(first, count, length), lambda _: None)
                case _:
                    return
