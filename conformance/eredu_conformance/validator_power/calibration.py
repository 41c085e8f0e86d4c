"""Calibration: how often a right subject is rejected, on exact tables and at the edge of a tolerance."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eredu_conformance.validator_power.designs import LONG
from eredu_conformance.validator_power.power import tokens_to_reject
from eredu_conformance.validator_power.table_subject import TableSubject
from eredu_reference.models import TableModel
from eredu_validation.evidence import Evidence, Terms


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Validations of right subjects.

    Attributes:
        runs: How many.
        rejected: How many of them crossed the threshold at any time.
        tokens: Tokens of each that did not.
        terms: What was tested.
    """

    runs: int
    rejected: int
    tokens: int
    terms: Terms


def calibrate(*, runs: int, tokens: int, terms: Terms, first_seed: int = 0) -> Calibration:
    """Validate right subjects, each on tables and random numbers of its own.

    With a tolerance, each subject's engine is right about other tables: every row leaks the draft by a total variation
    of just the tolerance, always the same way, which is the worst that the null allows for most bets.
    """
    rejected = 0
    for seed in range(first_seed, first_seed + runs):
        evidence = Evidence(terms, seeds=(seed,))
        rejected += tokens_to_reject(subject(seed, terms.tolerance), evidence, seed, tokens) is not None
    return Calibration(runs=runs, rejected=rejected, tokens=tokens, terms=terms)


def subject(seed: int, tolerance: float) -> TableSubject:
    """A right subject, or one at the edge of the tolerance."""
    target, drafter = (TableModel.random(8, order=1, seed=number) for number in (2 * seed, 2 * seed + 1))
    right = TableSubject(target=target, drafter=drafter, request=LONG)
    if tolerance == 0:
        return right
    return replace(right, engine_target=TableModel({key: _leaking(key, right, tolerance) for key in target.rows}))


def _leaking(key: tuple[int, ...], right: TableSubject, variation: float) -> tuple[float, ...]:
    """A row moved towards the draft's by a total variation."""
    p, q = np.array(right.target.rows[key]), np.array(right.drafter.rows[key])
    share = variation / (np.abs(p - q).sum() / 2)
    return tuple(((1 - share) * p + share * q).tolist())
