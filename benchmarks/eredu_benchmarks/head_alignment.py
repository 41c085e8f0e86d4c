"""Teacher-forced acceptance of a target's own heads, by depth, under each wiring.

A head reads hidden states, so its acceptance depends on the depth: a row of depth d stands for a block whose first
d - 1 proposals were the text's own tokens. The chain is built as for an assistant, from each depth's own figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eredu.engine.alignment import FollowedRows, TargetRows, follow
from eredu.families.prediction_heads import PredictionHeads
from eredu_benchmarks.alignment import DEPTH, Alignment, require_own_chats
from eredu_benchmarks.clustered import Estimate
from eredu_benchmarks.held_out import Chat
from eredu_benchmarks.pair import BenchmarkPair

Rows = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeadRows:
    """The reply rows of one chat, as a head follows them.

    Attributes:
        accept: By depth, the chance that a proposal of each reply token is taken, each of shape (tokens,).
        follow: By depth, min(1, q/p) at the token itself, likewise.
    """

    accept: tuple[Rows, ...]
    follow: tuple[Rows, ...]

    @classmethod
    def of(cls, followed: Sequence[FollowedRows], *, greedy: bool) -> HeadRows:
        """Rows of the tokens that every depth has; greedy, a proposal is taken where the argmaxes agree."""
        count = min(len(each.accept) for each in followed)
        agrees = [each.agrees[-count:].astype(np.float64) for each in followed]
        if greedy:
            return cls(tuple(agrees), tuple(agrees))
        return cls(tuple(each.accept[-count:] for each in followed), tuple(each.ratio[-count:] for each in followed))

    def chain(self, length: int) -> Rows:
        """Chance from each start that the first `length` proposals are all taken, shape (starts,)."""
        starts = max(0, len(self.accept[0]) - len(self.accept) + 1)
        value = self.accept[length - 1][length - 1 : length - 1 + starts].copy()
        for step in range(length - 1):
            value *= self.follow[step][step : step + starts]
        return value


def align_heads(
    pair: BenchmarkPair,
    wirings: Mapping[str, PredictionHeads],
    chats: Sequence[Chat],
    temperature: float,
    *,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Alignment]:
    """Measure heads under each wiring on chats whose replies were sampled at `temperature`.

    The target reads each chat once for all of them; `advance` is called after each chat. Heads that cannot be iterated
    are measured as deep as they have stages.

    Raises `OptionError` for chats of another tokenizer.
    """
    require_own_chats(pair, chats)
    rows: dict[str, list[HeadRows]] = {name: [] for name in wirings}
    for chat in chats:
        read = TargetRows.read(pair.target_model, chat.tokens.tolist(), first=chat.prompt_length)
        for name, heads in wirings.items():
            depth = DEPTH if heads.traits.iterable else min(DEPTH, heads.traits.stages)
            followed = follow(heads, read, depth, temperature=temperature or 1.0)
            rows[name].append(HeadRows.of(followed, greedy=temperature == 0))
        advance()
    return {name: _summarise(each, temperature, name) for name, each in rows.items()}


def _summarise(rows: Sequence[HeadRows], temperature: float, wiring: str) -> Alignment:
    depth = len(rows[0].accept)
    accept = tuple(Estimate.of([each.accept[at] for each in rows]) for at in range(depth))
    chain = tuple(Estimate.of([each.chain(length) for each in rows]) for length in range(1, depth + 1))
    return Alignment(temperature, accept, chain, wiring)
