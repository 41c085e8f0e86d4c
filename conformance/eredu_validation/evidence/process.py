"""The e-process: batches of emitted tokens in, the running evidence out.

M_n, the average of the bets' wealth by their weights, starts at 1. If every token has its processed law given the past
(within the tolerance), the chance that M_n ever reaches 1 / alpha is at most alpha, whenever one stops and whatever
made one stop (Ville 1939). Tokens may come in batches of any size and from many requests, as long as the tokens of each
request keep their order and batches are chosen without a look at their tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eredu.contract.errors import EvidenceError
from eredu_validation.evidence.columns import Columns, check_columns, columns_of
from eredu_validation.evidence.emission import Emission, Floats
from eredu_validation.evidence.kept_bets import KeptBets, below, put_below
from eredu_validation.evidence.portfolio import Portfolio, portfolio
from eredu_validation.evidence.resolution import MISS, Design
from eredu_validation.evidence.tally import Tally, add_up, tally_of, tally_of_record, tally_record, uniforms_before
from eredu_validation.evidence.transforms import Order, View

LEAST_CHUNK, MOST_CHUNK = 32, 2048
"""Tokens that learning bets wait before they use what they saw: a 16th of all so far, within these bounds."""
CHUNK_CELLS = 1 << 20
"""Numbers in the rows of one chunk at the most, so that its arrays stay small."""
SALT = int.from_bytes(b"eredu.evidence", "big")
"""Keeps V apart from a subject that seeds the same kind of generator alike: to it, 5 and [5, 0] are one seed.

No name of a module: ledgers that were begun with it go on with it.
"""
BURDEN = 2.0
"""Tolerances that a deviation must exceed before the charged bets grow; measured for leaks at 2e-3."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is tested, and how sure one wants to be.

    Attributes:
        alpha: Chance of reporting a deviation of a right subject, at the most.
        tolerance: Total variation per token that the null allows: 0 for exact arithmetic, 1e-5 for float32 models,
            2e-3 for bfloat16, or what an audit of the numerics measured.
    """

    alpha: float = 1e-6
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise EvidenceError(f"alpha was {self.alpha}; expected a chance above 0 and below 1, such as 1e-6")
        if not 0 <= self.tolerance < 0.5:
            raise EvidenceError(f"the tolerance was {self.tolerance}; expected a total variation from 0 to 0.5")

    @property
    def log_threshold(self) -> float:
        """ln(1 / alpha)."""
        return -math.log(self.alpha)


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """The first token at which M reached 1 / alpha.

    Attributes:
        token: How many tokens had been taken with it.
        request: Its request.
        position: Its output position.
        stratum: Name of its stratum.
    """

    token: int
    request: int
    position: int
    stratum: str


@dataclass(frozen=True, kw_only=True)
class Increment:
    """What one batch added.

    Attributes:
        tally: The batch alone.
        tokens: Tokens taken with it, in all.
        log_e: ln M behind it; infinite once a token of probability 0 refuted an exact null.
        peak: The largest ln M within it.
        crossing: Where M first reached 1 / alpha, if it has.
    """

    tally: Tally
    tokens: int
    log_e: float
    peak: float
    crossing: Crossing | None


def design_of(terms: Terms, bets: Portfolio | None = None) -> Design:
    """Design of a validation with a portfolio.

    The bet of least weight is taken for the one that must notice. That its fraction is one of a grid costs up to a
    fifth of its growth, and that its neighbours and other families notice too is worth more: the tests measure both.
    """
    weight = float(np.exp((bets or portfolio()).log_weights.min()))
    return Design(
        alpha=terms.alpha,
        tolerance=terms.tolerance,
        weight=weight,
        burden=BURDEN,
        miss=MISS,
    )


def log_e_of(tally: Tally, terms: Terms, bets: Portfolio | None = None) -> float:
    """Logarithm of M for a tally; infinite where a token of probability 0 refuted an exact null."""
    if tally.impossible > 0 and terms.tolerance == 0:
        return math.inf
    if not tally.tokens:
        return 0.0
    return float(np.logaddexp.reduce(tally.log_wealth + (bets or portfolio()).log_weights))


class Evidence:
    """Running evidence about one subject.

    Attributes:
        terms: What is tested.
        portfolio: The bets.
        tally: Everything taken so far.
        crossing: Where M first reached 1 / alpha, if it has.
    """

    def __init__(
        self,
        terms: Terms,
        *,
        seeds: Sequence[int],
        crossing: Crossing | None = None,
        bets: Portfolio | None = None,
        kept: KeptBets | None = None,
    ) -> None:
        """Start, or go on from what was kept.

        Args:
            terms: What is tested.
            seeds: Of the generator of V, non-negative. It is another generator than the subject's.
            crossing: Where an earlier session crossed.
            bets: The portfolio, with nothing learned; None makes the one of `eredu validate`.
            kept: What `keep` gave in an earlier session: this one goes on as that one would have.

        Raises `EvidenceError` for what another portfolio kept.
        """
        self.terms = terms
        self.portfolio = bets or portfolio()
        self.tally = Tally()
        self.crossing = crossing
        self._log_weights = self.portfolio.log_weights
        self._wealth = np.zeros(len(self._log_weights))
        self._bits = np.random.PCG64([SALT, *seeds, 0])
        self._generator = np.random.Generator(self._bits)
        self._last: dict[int, dict[Order, float]] = {}
        self._taking = False
        if kept is not None:
            self._recall(kept)

    def keep(self) -> KeptBets | None:
        """What a later session goes on from; None where an interruption left a batch taken in part."""
        if self._taking:
            return None
        families = [put_below(s.family.learned(), str(number)) for number, s in enumerate(self.portfolio.stakes)]
        arrays = {name: array for family in families for name, array in family.items()}
        return KeptBets({**arrays, "wealth": self._wealth}, {"tally": tally_record(self.tally)})

    def _recall(self, kept: KeptBets) -> None:
        try:
            self.tally, self._wealth = tally_of_record(kept.values["tally"]), kept.arrays["wealth"].copy()
            for number, stake in enumerate(self.portfolio.stakes):
                stake.family.recall(below(kept.arrays, str(number)))
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise EvidenceError(f"what the bets learned is of another portfolio ({error!r}); begin anew") from error
        if len(self._wealth) != len(self._log_weights):
            raise EvidenceError(
                f"{len(self._wealth)} bets were kept and the portfolio has {len(self._log_weights)}: the evidence of "
                "another version cannot be continued; start anew"
            )
        self._bits.advance(self.tally.tokens)  # one number a token

    @property
    def log_e(self) -> float:
        """Logarithm of M now."""
        return log_e_of(self.tally, self.terms, self.portfolio)

    @property
    def resolved(self) -> float:
        """Total variation per token that would have been reported by now, with probability 1 - `MISS`."""
        return design_of(self.terms, self.portfolio).resolved(self.tally.tokens)

    def take(self, batch: Sequence[Emission] | Columns) -> Increment:
        """Take a batch of tokens, at least one, and say what it added.

        Raises `EvidenceError` for rows that are no distributions. Nothing is taken then.
        """
        columns = batch if isinstance(batch, Columns) else columns_of(batch)
        if isinstance(batch, Columns):
            check_columns(columns)
        parts, peak, first = [], -math.inf, 0
        self._taking = True
        while first < len(columns):
            last = min(len(columns), first + self._chunk(columns.vocabulary))
            part, highest = self._take_chunk(columns.part(first, last))
            parts.append(part)
            peak, first = max(peak, highest), last
        self._taking = False
        return Increment(
            tally=add_up(parts), tokens=self.tally.tokens, log_e=self.log_e, peak=peak, crossing=self.crossing
        )

    def _take_chunk(self, columns: Columns) -> tuple[Tally, float]:
        view = View.of(columns, self._generator)
        families = [stake.family for stake in self.portfolio.stakes]
        growth = np.concatenate([f.log_growth(view, tolerance=self.terms.tolerance) for f in families], axis=1)
        path = np.logaddexp.reduce(self._wealth + np.cumsum(growth, axis=0) + self._log_weights, axis=1)
        impossible = np.cumsum(columns.at_tokens(columns.target) <= 0) + self.tally.impossible
        if self.terms.tolerance == 0:
            path = np.where(impossible > 0, np.inf, path)
        self._note_crossing(columns, path)
        for family in families:
            family.learn(view)
        self._wealth = self._wealth + growth.sum(axis=0)
        part = tally_of(view, growth, uniforms_before(view, self._last))
        self.tally = add_up([self.tally, part])
        return part, float(path.max())

    def _note_crossing(self, columns: Columns, path: Floats) -> None:
        reached = path >= self.terms.log_threshold
        if self.crossing is None and reached.any():
            index = int(np.argmax(reached))
            self.crossing = Crossing(
                token=self.tally.tokens + index + 1,
                request=int(columns.requests[index]),
                position=int(columns.positions[index]),
                stratum=columns.names[int(columns.strata[index])],
            )

    def _chunk(self, vocabulary: int) -> int:
        learned = max(LEAST_CHUNK, min(self.tally.tokens // 16, MOST_CHUNK))
        return max(1, min(learned, CHUNK_CELLS // vocabulary))
