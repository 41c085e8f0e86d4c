"""Greedy speculation on paper: which rounds a pair of laws gives, so that a check knows what it exercises."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eredu_conformance.crafted import CheckpointPair


@dataclass(frozen=True)
class Round:
    """One round.

    Attributes:
        start: Output position of its first proposal.
        proposed: Its proposals.
        accepted: How many of them are the target's.
    """

    start: int
    proposed: int
    accepted: int


def greedy_rounds(pair: CheckpointPair, prompt: tuple[int, ...], *, proposals: int, tokens: int) -> list[Round]:
    """The rounds of greedy speculation by the rules.

    Args:
        pair: The laws.
        prompt: Prompt ids.
        proposals: K.
        tokens: The budget.
    """
    output = pair.target.greedy_path(prompt, tokens)
    rounds, start = [], 0
    while start < tokens:
        count = min(proposals, tokens - start - 1)
        accepted = 0
        while accepted < count and _proposal(pair, prompt + output[: start + accepted]) == output[start + accepted]:
            accepted += 1
        rounds.append(Round(start, count, accepted))
        start += accepted + 1
    return rounds


def _proposal(pair: CheckpointPair, history: tuple[int, ...]) -> int:
    return int(np.argmax(pair.draft.next_logits(history)))
