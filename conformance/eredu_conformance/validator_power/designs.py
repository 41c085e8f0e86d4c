"""For each fault of the law, tables and a request on which its deviation is as large as such a fault's is.

Most stand on random tables of 8 ids with contexts of one token, blocks of 3 and outputs of 64 tokens. A fault that only
another rule, other settings or short outputs let act has a design of its own; so have faults that move the law by less
than 1 % of a token, on tables chosen for a large deviation by computing it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from eredu_conformance.faults import FAULTS, fault_named
from eredu_conformance.validator_power.table_subject import OFF, TableSubject
from eredu_reference import AcceptanceRule, Request, Sampling, Schedule
from eredu_reference.models import TableModel

DRAFTER_SEED = 100
"""What the drafter's seed is ahead of its target's."""


LONG = Request(prompt=(0,), max_tokens=64, max_proposals=3)


@dataclass(frozen=True, kw_only=True)
class PowerDesign:
    """What a fault is planted into.

    Attributes:
        request: What is asked.
        vocabulary: Ids of the tables.
        seeds: One pair of tables for each.
        drafter_seed: What the drafter's seed is ahead of its target's.
        sharpness: Peakedness of both tables' rows.
        likeness: Share of the target in the drafter's rows.
        schedule: What may be drafted ahead.
        varied: Whether each request gets a prompt of its own.
        most_tokens: When to give up.
    """

    request: Request = LONG
    vocabulary: int = 8
    seeds: tuple[int, ...] = (10, 11, 12)
    drafter_seed: int = DRAFTER_SEED
    sharpness: float = 1.0
    likeness: float = 0.0
    schedule: Schedule = field(default=OFF)
    varied: bool = True
    most_tokens: int = 30_000

    def subject(self, fault: str, seed: int) -> TableSubject:
        """The subject with a fault on one pair of tables."""
        target, other = (
            TableModel.random(self.vocabulary, order=1, seed=number, sharpness=self.sharpness)
            for number in (seed, seed + self.drafter_seed)
        )
        rows = {
            key: tuple(self.likeness * p + (1 - self.likeness) * q for p, q in zip(row, other.rows[key], strict=True))
            for key, row in target.rows.items()
        }
        return TableSubject(
            target=target,
            drafter=TableModel(rows),
            request=self.request,
            schedule=self.schedule,
            pieces=fault_named(fault).engine(),
            varied=self.varied,
        )


_PLAIN = PowerDesign()
_SIX = replace(_PLAIN, seeds=tuple(range(10, 16)))
_BLOCK = replace(_PLAIN, request=replace(_PLAIN.request, acceptance=AcceptanceRule.BLOCK))


def _short(length: int, proposals: int, rule: AcceptanceRule = AcceptanceRule.REJECTION) -> Request:
    return Request(prompt=(0,), max_tokens=length, max_proposals=proposals, acceptance=rule)


DESIGNS: dict[str, PowerDesign] = {
    **{
        fault.name: _BLOCK if fault.name.startswith("block-") else _PLAIN
        for fault in FAULTS
        if fault.killed_by.startswith("law.")
    },
    **dict.fromkeys(
        (
            "residual-is-the-target",
            "residual-of-absolute-difference",
            "draft-truncated-q-full",
            "bonus-from-the-draft",
            "bonus-from-the-row-before",
            "greedy-draft-called-sampled",
            "replacement-is-coin",
            "one-coin-a-block",
        ),
        _SIX,
    ),
    "lenient-acceptance": replace(_SIX, most_tokens=120_000),
    "needless-rejection": replace(_PLAIN, most_tokens=200_000),
    "number-lost-from-the-address": _BLOCK,
    "q-of-raw-logits": replace(
        _PLAIN, request=replace(_PLAIN.request, sampling=Sampling(temperature=0.7, top_k=5)), most_tokens=60_000
    ),
    "guess-becomes-the-bonus": replace(_PLAIN, schedule=Schedule(adaptive_window=None)),
    # Two bonuses stand in one pair only at the end of an output, so outputs are short and drafts good.
    "bonuses-share-numbers-in-pairs": replace(_PLAIN, request=_short(4, 2), likeness=0.8),
    # The first depth of 0 ends drafting for good, so outputs are short here too.
    "depth-from-a-discarded-draw": PowerDesign(
        request=_short(3, 2), vocabulary=3, seeds=(2,), drafter_seed=77, varied=False
    ),
    "block-coins-by-position": PowerDesign(
        request=_short(5, 3, AcceptanceRule.BLOCK), vocabulary=2, seeds=(1,), drafter_seed=77, varied=False
    ),
    "block-proposals-by-position": PowerDesign(
        request=_short(5, 3, AcceptanceRule.BLOCK),
        vocabulary=2,
        seeds=(0,),
        drafter_seed=77,
        sharpness=2.0,
        varied=False,
    ),
    "block-residual-unweighted": PowerDesign(
        request=_short(64, 2, AcceptanceRule.BLOCK), vocabulary=3, seeds=(524,), drafter_seed=77
    ),
}
"""A design for every fault whose declared killer is a check of the law."""

_TOO_SMALL = "moves probabilities by 10^-3 of themselves at the most; the exact law kills it"
_TOO_RARE = "shows once in 2^24 coins; the exact law kills it"

UNSEEN: dict[str, str] = {
    "draft-drawn-in-bfloat16": _TOO_SMALL,
    "q-recorded-in-float32": _TOO_SMALL,
    "coin-zero-accepts-the-impossible": _TOO_RARE,
    "coin-rounded-to-one": _TOO_RARE,
    "ratio-in-half-precision": "moves the ratio of probabilities above 6e-5 by at most 2^-10 of itself, a total "
    "variation of about 1e-4 and, by estimate, 1e9 tokens. As with a draft drawn in bfloat16, sampling is the wrong "
    "instrument, and the exact law kills it",
}
"""Faults of the law that no affordable sample shows, and why."""
