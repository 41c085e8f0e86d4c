"""Independent runs of one subject as one: their e-values multiply, bet by bet, and their counts add.

A bet's wealth in each run is an e-value, wherever that run stopped, so the product over independent runs is one, and so
is the average of the products by the bets' weights. It pays the price of a bet's weight once, as one long run would.
A run that crossed its threshold counts with the wealth it had at its end, not at its peak.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from eredu.contract.errors import EvidenceError
from eredu_validation.evidence.ledger_content import Header, LedgerContent
from eredu_validation.evidence.process import Terms, log_e_of
from eredu_validation.evidence.tally import Tally, add_up


@dataclass(frozen=True, kw_only=True)
class Merged:
    """Several runs.

    Attributes:
        headers: Their headers.
        terms: What all of them test.
        tally: Their sum.
        log_e: Logarithm of their joint e-value.
    """

    headers: tuple[Header, ...]
    terms: Terms
    tally: Tally
    log_e: float


def merge(runs: Sequence[LedgerContent]) -> Merged:
    """Merge ledgers.

    Raises `EvidenceError` if there are none, if they are about different subjects (naming what differs), or if two are
    not independent: one run given twice, or two of one seed and part.
    """
    if not runs:
        raise EvidenceError("nothing was given to merge; name at least one ledger")
    first = runs[0].header
    for run in runs[1:]:
        differences = first.subject.differences(run.header.subject)
        if differences:
            raise EvidenceError(f"these ledgers are about different subjects: {'; '.join(differences)}")
    repeated = [key for key, count in Counter((b.header.seed, b.header.part) for b in runs).items() if count > 1]
    if repeated:
        seed, part = repeated[0]
        raise EvidenceError(
            f"two of these ledgers have seed {seed} and part {part}: they saw the same random numbers, and only "
            "independent runs multiply; give each run a seed of its own"
        )
    tally = add_up(run.tally for run in runs)
    return Merged(
        headers=tuple(run.header for run in runs),
        terms=first.terms,
        tally=tally,
        log_e=log_e_of(tally, first.terms),
    )
