"""Suffix lookup: what followed the longest earlier occurrence of the text's end is proposed again. It needs no model.

After prompt lookup (Saxena 2023) and suffix decoding (arXiv 2411.04975). A proposal's distribution is a point mass,
which is what it is really drawn from, and a function of the tokens before it alone: so a promoted branch is the very
block that drafting after the commit would give.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import cast

import mlx.core as mx
import numpy as np

from eredu.contract.constraint import Constraint
from eredu.contract.drafter import DrafterTraits, History, Reads
from eredu.contract.executor import CommitPlan
from eredu.contract.options import MAX_PROPOSALS
from eredu.contract.request import GenerationRequest
from eredu.drafters.draft_block import MlxBlock
from eredu.drafters.proposal import append_proposal
from eredu.drafters.target_view import TargetView

LONGEST = 32
"""Tokens of a match that are told apart: what is longer counts as this long."""
MOST_PLACES = 64
"""Earlier places of the last token that are looked at, the latest first."""


@dataclass(slots=True)
class LookupState:
    """An index of the committed tokens, which only grow.

    Attributes:
        places: Where each token stands, in order.
        indexed: Tokens in the index.
    """

    places: dict[int, list[int]] = field(default_factory=dict)
    indexed: int = 0

    def extend(self, tokens: Sequence[int]) -> None:
        """Index what has been committed since."""
        for place in range(self.indexed, len(tokens)):
            self.places.setdefault(tokens[place], []).append(place)
        self.indexed = len(tokens)


class LookupDrafter:
    """Proposes by suffix lookup in prompt and output.

    Args:
        vocabulary_size: Rows of the target's logits.
    """

    reads = Reads.HISTORY
    # rule: lookahead.exact-promotion-only
    traits = DrafterTraits(max_proposals=MAX_PROPOSALS, exact_promotion=True)

    def __init__(self, vocabulary_size: int) -> None:
        self._vocabulary_size = vocabulary_size

    def open(self, request: GenerationRequest) -> LookupState:  # noqa: ARG002
        """An empty index."""
        return LookupState()

    def prefill(self, state: LookupState, history: History, fed: range, view: TargetView) -> None:  # noqa: ARG002
        """Index the chunk."""
        state.extend(history.tokens[: fed.stop])

    # rule: draft.from-frontier, promotion.top-up, constraints.drafting-stops-at-completion
    def propose(self, state: LookupState, history: History, block: MlxBlock, count: int, view: TargetView) -> None:  # noqa: ARG002
        """Look each proposal up behind the one before."""
        state.extend(history.tokens)
        text = _Text(history.tokens, [cast(int, token.item()) for token in block.pending])
        while block.wants(count):
            token = _choose(state, text, block.constraints[-1] if block.constraints else None)
            point = mx.where(mx.arange(self._vocabulary_size) == token, 0.0, -math.inf)[None]
            # rule: draft.recorded-distribution
            append_proposal(history.request.options, block, mx.array([token], dtype=mx.uint32), point)
            text.pending.append(token)

    # rule: lookahead.drafted-whole
    def branch(self, state: LookupState, history: History, branch: MlxBlock, count: int, view: TargetView) -> None:
        """Look on behind the parent."""
        self.propose(state, history, branch, count, view)

    # rule: rollback.drafter-follows
    def settle(self, state: LookupState, history: History, plan: CommitPlan, view: TargetView) -> None:
        """Nothing but committed tokens is ever in the index."""

    def close(self, state: LookupState, history: History) -> None:
        """Nothing runs."""


@dataclass(frozen=True, slots=True)
class _Text:
    """Committed and pending tokens, as one sequence."""

    committed: Sequence[int]
    pending: list[int]

    def __len__(self) -> int:
        return len(self.committed) + len(self.pending)

    def __getitem__(self, place: int) -> int:
        behind = place - len(self.committed)
        return self.committed[place] if behind < 0 else self.pending[behind]


def _choose(state: LookupState, text: _Text, constraint: Constraint | None) -> int:
    """The token behind the longest match, the latest of equal ones, among those that the grammar allows.

    Where nothing matches, the last token again, or the lowest id that the grammar allows.
    """
    allowed = None if constraint is None else constraint.mask()
    best, longest = text[len(text) - 1], 0
    if allowed is not None and not allowed[best]:
        best = int(np.flatnonzero(allowed)[0])
    for place in islice(_places(state, text), MOST_PLACES):
        token = text[place + 1]
        if allowed is None or allowed[token]:
            length = _match(text, place)
            if length > longest:
                best, longest = token, length
    return best


def _places(state: LookupState, text: _Text) -> Iterator[int]:
    """Earlier places of the last token, the latest first."""
    last, start = text[len(text) - 1], len(text.committed)
    yield from (start + place for place in range(len(text.pending) - 2, -1, -1) if text.pending[place] == last)
    yield from (place for place in reversed(state.places.get(last, ())) if place < len(text) - 1)


def _match(text: _Text, place: int) -> int:
    """Tokens up to `place` that are the text's last ones, at least 1, counted to `LONGEST`."""
    end, length = len(text) - 1, 1
    while length < LONGEST and length <= place and text[place - length] == text[end - length]:
        length += 1
    return length
