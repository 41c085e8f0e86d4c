"""The crafted pairs that the suite runs on, one builder for each kind of law.

Sizes are small (vocabulary 4 to 64, context 64 tokens), so an engine on one core runs thousands of rounds a minute.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from eredu_conformance.crafted.architecture import Architecture, Tensor
from eredu_conformance.crafted.bigram import BigramCheckpoint
from eredu_conformance.crafted.checkpoint import CraftedCheckpoint
from eredu_conformance.crafted.lag import LagCheckpoint
from eredu_conformance.crafted.memory import MemoryCheckpoint
from eredu_conformance.crafted.pair import CheckpointPair
from eredu_conformance.crafted.position import PositionCheckpoint
from eredu_conformance.crafted.tables import cycle_table, forbid, mix, random_table, sum_table

_QWEN3 = Architecture.QWEN3


@cache
def crafted_pairs() -> tuple[CheckpointPair, ...]:
    """All pairs, in a fixed order."""
    return (*_table_pairs(), *_extreme_pairs(), *_lag_pairs(), *_memory_pairs(), *_position_pairs(), *_window_pairs())


def crafted_pair(name: str) -> CheckpointPair:
    """The pair of that name."""
    for pair in crafted_pairs():
        if pair.name == name:
            return pair
    known = ", ".join(pair.name for pair in crafted_pairs())
    raise KeyError(f"no crafted pair is called {name!r}; known: {known}")


def crafted_checkpoints() -> tuple[CraftedCheckpoint, ...]:
    """Every checkpoint of the pairs once, in a fixed order."""
    found = {c.name: c for pair in crafted_pairs() for c in (pair.target, pair.draft)}
    return tuple(found.values())


def _bigram(name: str, probabilities: Tensor, **options: object) -> BigramCheckpoint:
    return BigramCheckpoint(name=name, probabilities=probabilities, **options)  # type: ignore[arg-type]


def _lag(name: str, probabilities: Tensor, **options: object) -> LagCheckpoint:
    return LagCheckpoint(name=name, probabilities=probabilities, **options)  # type: ignore[arg-type]


def _forgetful(generator: np.random.Generator, vocabulary: int) -> Tensor:
    """Memory gains under which a token makes itself less likely, so that the output keeps moving."""
    return np.asarray(generator.normal(0, 3, (vocabulary, vocabulary)) - 12 * np.eye(vocabulary))


def _table_pairs() -> tuple[CheckpointPair, ...]:
    """Tables with p and q everywhere positive."""
    small = _bigram("table-4", mix(random_table(11, (4, 4)), cycle_table(4), 0.5))
    near = _bigram("table-4-near", mix(small.probabilities, random_table(13, (4, 4)), 0.3))
    wide = _bigram("table-64", random_table(14, (64, 64), concentration=0.3), architecture=_QWEN3)
    wide_draft = _bigram("table-64-draft", mix(wide.probabilities, random_table(15, (64, 64)), 0.4))
    ending = _bigram(
        "table-5-eos", mix(random_table(16, (5, 5)), cycle_table(5), 0.25), eos=4, shift=2.0, architecture=_QWEN3
    )
    ending_draft = _bigram("table-5-eos-draft", random_table(17, (5, 5)), eos=4)
    far = _bigram("table-4-far", random_table(12, (4, 4)))
    return (
        CheckpointPair("table", small, far, (0, 2), "p and q differ everywhere"),
        CheckpointPair("table-near", small, near, (1,), "most proposals are accepted"),
        CheckpointPair("table-equal", small, small, (3, 1), "p = q: no proposal fails"),
        CheckpointPair("table-wide", wide, wide_draft, (7, 40), "64 ids, peaked rows"),
        CheckpointPair(
            "table-eos", ending, ending_draft, (0, 1), "EOS has probability everywhere; target logits have both signs"
        ),
    )


def _extreme_pairs() -> tuple[CheckpointPair, ...]:
    """Tables with zeros, ties and certainties."""
    ids = np.arange(6)
    even = forbid(mix(random_table(21, (6, 6)), cycle_table(6, 2), 0.5), ids % 2 == 1)
    odd = forbid(random_table(22, (6, 6)), ids % 2 == 0)
    ring = (ids[None, :] - ids[:, None]) % 6
    holes = _bigram("table-6-holes", forbid(random_table(23, (6, 6)), ring >= 4))
    other_holes = _bigram("table-6-other-holes", forbid(random_table(24, (6, 6)), ring <= 1))
    cycle = _bigram("cycle-8", cycle_table(8))
    ties = _bigram("ties-4", np.full((4, 4), 0.25))
    half_ties = _bigram("half-ties-4", np.array([[0, 0.5, 0.5, 0]] * 4))
    return (
        CheckpointPair(
            "disjoint",
            _bigram("even-6", even),
            _bigram("odd-6", odd),
            (0,),
            "no token has both p > 0 and q > 0: every proposal fails",
        ),
        CheckpointPair("holes", holes, other_holes, (5, 0), "tokens with p = 0 < q and q = 0 < p"),
        CheckpointPair("cycle", cycle, cycle, (2, 3), "one possible output, right draft"),
        CheckpointPair(
            "cycle-wrong",
            cycle,
            _bigram("cycle-8-by-3", cycle_table(8, 3)),
            (2, 3),
            "one possible output, every proposal wrong",
        ),
        CheckpointPair("ties", ties, half_ties, (3,), "equal maxima: greedy takes the lowest id"),
    )


def _lag_pairs() -> tuple[CheckpointPair, ...]:
    """Order-2 laws: a stale, missing or misplaced row fetches another token."""
    order_two = _lag("order-2", mix(random_table(31, (5, 5, 5)), sum_table(5), 0.4))
    order_two_draft = _lag(
        "order-2-draft",
        mix(order_two.probabilities, random_table(32, (5, 5, 5)), 0.35),
        architecture=_QWEN3,
    )
    path = _lag("path-8", sum_table(8, 1), architecture=_QWEN3)
    path_draft = _lag("path-8-draft", mix(path.probabilities, random_table(34, (8, 8, 8)), 0.5))
    far = _lag("lag-5", mix(random_table(35, (4, 4, 4)), sum_table(4, 1), 0.4), lag=5)
    marginal = _bigram("lag-5-draft", np.asarray(far.probabilities.mean(axis=1)))
    return (
        CheckpointPair("order-2", order_two, order_two_draft, (0, 3, 1), "P(next | two tokens)"),
        CheckpointPair("path", path, path_draft, (1, 6), "one possible output, draft half right"),
        CheckpointPair("lag-5", far, marginal, (0, 1, 2, 3), "the row five back decides"),
    )


def _memory_pairs() -> tuple[CheckpointPair, ...]:
    """Laws of all cached rows: a row too many, too few or out of place changes them."""
    generator = np.random.default_rng(41)
    counts = MemoryCheckpoint(name="counts-6", probabilities=random_table(42, (6, 6)), gains=_forgetful(generator, 6))
    fading = MemoryCheckpoint(
        name="fading-6",
        probabilities=random_table(43, (6, 6)),
        gains=_forgetful(generator, 6),
        fading=12.0,
        architecture=_QWEN3,
    )
    return (
        CheckpointPair(
            "counts",
            counts,
            _bigram("counts-6-draft", random_table(44, (6, 6))),
            (0, 1, 1, 5),
            "the counts of all tokens decide, a draft without memory",
        ),
        CheckpointPair("fading", fading, counts, (2, 4, 0), "the order of all rows decides"),
    )


def _position_pairs() -> tuple[CheckpointPair, ...]:
    """Laws of the absolute position."""
    anchored = forbid(random_table(51, (6, 6), concentration=3.0), np.arange(6) == 0)
    target = PositionCheckpoint(
        name="position-7", probabilities=anchored, residues=random_table(52, (7, 6), concentration=0.3)
    )
    draft = PositionCheckpoint(
        name="position-7-draft",
        probabilities=anchored,
        residues=mix(target.residues, random_table(53, (7, 6)), 0.4),
        architecture=_QWEN3,
    )
    slow = PositionCheckpoint(
        name="position-13", probabilities=anchored, residues=random_table(54, (13, 6), concentration=0.2)
    )
    return (
        CheckpointPair("position", target, draft, (0, 3), "the position modulo 7 decides"),
        CheckpointPair(
            "position-13",
            slow,
            _bigram("position-13-draft", anchored),
            (0, 2, 5),
            "the position modulo 13 decides, a draft without positions",
        ),
    )


def _window_pairs() -> tuple[CheckpointPair, ...]:
    """Laws of exactly the rows in a sliding window."""
    generator = np.random.default_rng(61)
    oldest = _lag("window-4-oldest", mix(random_table(62, (5, 5, 5)), sum_table(5, 2), 0.4), lag=3, sliding=4)
    oldest_draft = _lag(
        "window-4-oldest-draft",
        mix(oldest.probabilities, random_table(63, (5, 5, 5)), 0.4),
        lag=3,
        sliding=4,
    )
    few = MemoryCheckpoint(
        name="window-6-counts",
        probabilities=random_table(64, (5, 5)),
        gains=_forgetful(generator, 5),
        sliding=6,
    )
    many = MemoryCheckpoint(
        name="window-16-fading",
        probabilities=random_table(65, (5, 5)),
        gains=_forgetful(generator, 5),
        fading=12.0,
        sliding=16,
    )
    plain = _bigram("window-draft", random_table(66, (5, 5)))
    return (
        CheckpointPair(
            "window-4", oldest, oldest_draft, (0, 4, 1), "the oldest row of a window of 4 decides, the draft slides too"
        ),
        CheckpointPair("window-6", few, plain, (3, 0, 2), "the counts in a window of 6 decide"),
        CheckpointPair("window-16", many, plain, (1, 2, 0, 4), "the order of the rows in a window of 16 decides"),
    )
