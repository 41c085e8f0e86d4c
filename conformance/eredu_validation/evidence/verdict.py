"""The verdict in words: no deviation, deviation found, or inconclusive, and what goes with each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from eredu_validation.evidence.portfolio import Portfolio, portfolio
from eredu_validation.evidence.process import Crossing, Terms, design_of, log_e_of
from eredu_validation.evidence.resolution import Design
from eredu_validation.evidence.tally import Tally

UNSETTLED = 0.5
"""Share of ln(1 / alpha) from which on an e-value is too large to call it no deviation, though it decides nothing."""
MOST_MORE = 100
"""An estimate of further tokens is not made beyond this many times those taken."""


class Conclusion(StrEnum):
    """What was concluded."""

    NO_DEVIATION = "no deviation"
    DEVIATION = "deviation found"
    INCONCLUSIVE = "inconclusive"

    @property
    def exit_status(self) -> int:
        """What the shell gets."""
        return {Conclusion.NO_DEVIATION: 0, Conclusion.DEVIATION: 1, Conclusion.INCONCLUSIVE: 3}[self]


@dataclass(frozen=True, kw_only=True)
class BestBet:
    """A bet that did well.

    Attributes:
        name: Its name.
        family: Its family.
        looks_like: What a deviation that it finds looks like.
        log_wealth: Logarithm of its wealth.
        stratum: Where it earned most.
    """

    name: str
    family: str
    looks_like: str
    log_wealth: float
    stratum: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the evidence says.

    Attributes:
        conclusion: In a word.
        tokens: Tokens taken.
        impossible: Those of them that have probability 0.
        log_e: Logarithm of the e-value.
        resolved: Total variation per token that would have been reported with probability `1 - miss`.
        miss: The chance of a miss at it.
        needed: Further tokens until it is conclusive, about; None where it is, or where no number of them helps.
        crossing: Where the threshold was reached; None in merged evidence, which has no path.
        best: The best bets, the best first; none before the first token.
        reason: Why it is inconclusive, or empty.
    """

    conclusion: Conclusion
    tokens: int
    impossible: int
    log_e: float
    resolved: float
    miss: float
    needed: int | None
    crossing: Crossing | None
    best: tuple[BestBet, ...]
    reason: str = ""

    @property
    def text(self) -> str:
        """One sentence."""
        match self.conclusion:
            case Conclusion.NO_DEVIATION:
                return (
                    f"no deviation; a TV deviation of {round_up(self.resolved):g} per token would have been reported "
                    f"with probability ≥ {1 - self.miss:g}"
                )
            case Conclusion.DEVIATION:
                return (
                    f"deviation found, e-value {e_value_text(self.log_e)}, first seen in {self._first_seen}, "
                    f"looks like this: {self._looks_like}"
                )
            case Conclusion.INCONCLUSIVE:
                more = (
                    "no number of tokens helps" if self.needed is None else f"needs about {self.needed:,} more tokens"
                )
                return f"inconclusive: {more}; {self.reason}"

    @property
    def _looks_like(self) -> str:
        if math.isinf(self.log_e):
            return f"ids are drawn that their rows rule out, {self.impossible:,} of {self.tokens:,} tokens"
        return f"{self.best[0].looks_like} (best bet: {self.best[0].name})"

    @property
    def _first_seen(self) -> str:
        if self.crossing is None:
            return f"tokens with {self.best[0].stratum}"
        return f"request {self.crossing.request} at token {self.crossing.position} ({self.crossing.stratum})"


def judge(
    tally: Tally,
    terms: Terms,
    *,
    crossing: Crossing | None = None,
    resolve: float | None = None,
    planned: int | None = None,
    bets: Portfolio | None = None,
) -> Verdict:
    """Judge what was taken so far.

    Args:
        tally: What was taken.
        terms: What is tested.
        crossing: Where a single run reached its threshold. A run that did so found a deviation, whatever followed.
        resolve: Total variation that must be resolved before "no deviation" is said; None asks for none.
        planned: Tokens that must be taken before it is said; None asks for none but one.
        bets: The portfolio.
    """
    chosen = bets or portfolio()
    design, log_e = design_of(terms, chosen), log_e_of(tally, terms, chosen)
    conclusion, needed, reason = Conclusion.NO_DEVIATION, None, ""
    if crossing is not None or log_e >= terms.log_threshold:
        conclusion = Conclusion.DEVIATION
    else:
        needed, reason = _open_question(tally.tokens, log_e, design, resolve=resolve, planned=planned)
        conclusion = Conclusion.INCONCLUSIVE if reason else Conclusion.NO_DEVIATION
    return Verdict(
        conclusion=conclusion,
        tokens=tally.tokens,
        impossible=tally.impossible,
        log_e=log_e,
        resolved=design.resolved(tally.tokens),
        miss=design.miss,
        needed=needed,
        crossing=crossing,
        best=best_bets(tally, chosen),
        reason=reason,
    )


def best_bets(tally: Tally, bets: Portfolio, *, count: int = 5) -> tuple[BestBet, ...]:
    """Bets by their share of the wealth, the largest first."""
    if not tally.tokens:
        return ()
    wealth = tally.log_wealth
    ranking = np.argsort(-(wealth + bets.log_weights), kind="stable")[:count]
    owners, names = bets.owners, bets.names
    return tuple(
        BestBet(
            name=names[index],
            family=owners[index].name,
            looks_like=owners[index].looks_like,
            log_wealth=float(wealth[index]),
            stratum=max(tally.strata, key=lambda name: tally.strata[name].log_wealth[index]),
        )
        for index in ranking.tolist()
    )


def _open_question(
    tokens: int, log_e: float, design: Design, *, resolve: float | None, planned: int | None
) -> tuple[int | None, str]:
    """Further tokens that are needed, and why; no reason where nothing is open."""
    threshold = -math.log(design.alpha)
    if tokens and log_e >= UNSETTLED * threshold:
        more = math.ceil(tokens * min(threshold / log_e - 1, MOST_MORE))
        return more, f"the e-value is {e_value_text(log_e)} and needs {1 / design.alpha:g} to decide"
    if resolve is not None and design.resolved(tokens) > resolve:
        needed = design.tokens_needed(resolve)
        if needed is None:
            return None, f"a TV deviation of {resolve:g} hides in the tolerance of {design.tolerance:g}"
        return max(1, needed - tokens), f"a TV deviation of {round_up(design.resolved(tokens)):g} is resolved so far"
    if tokens < (planned or 1):
        return (planned or 1) - tokens, f"{tokens:,} tokens were taken"
    return None, ""


def e_value_text(log_e: float) -> str:
    """An e-value for people."""
    if math.isinf(log_e):
        return "infinite"
    if log_e > 700:
        return f"1e+{int(log_e / math.log(10))}"
    return f"{math.exp(log_e):.2g}"


def round_up(value: float) -> float:
    """Two significant digits, never less than the value."""
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step - 1e-9) * step:.2g}")
