"""The law that a fault really draws from, place by place, where it can be written down: how far a subject is off.

Each law is a row given everything known before its token: the rows p and q, the place, and what the block emitted
before it. Faults whose law hangs on numbers that were read before (reused keys) have no row to write down here.
Randomness is one number an address, as the subjects draw: two decisions that read one address share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from eredu_validation.evidence import Emission
from eredu_validation.evidence.emission import Floats


@dataclass(frozen=True)
class Place:
    """One token's place.

    Attributes:
        p: What it should be drawn from, shape (V,).
        q: What its proposal was drawn from, shape (V,); p where there is none.
        offset: Its place in its block.
        proposed: Whether it has a proposal.
        before: The emissions of its block before it.
    """

    p: Floats
    q: Floats
    offset: int
    proposed: bool
    before: Sequence[Emission]


Law = Callable[[Place], Floats]
"""The row that a fault draws from, shape (V,)."""


@dataclass(frozen=True)
class Distance:
    """How far a law is off, a token.

    Attributes:
        variation: Mean total variation.
        divergence: Mean Kullback-Leibler divergence from what it should be, nats.
    """

    variation: float
    divergence: float


def distance(fault: str, emissions: Iterable[Emission]) -> Distance | None:
    """Mean distances along the emissions of a subject with a fault; None where its law cannot be written down."""
    law = LAWS.get(fault)
    if law is None:
        return None
    variations, divergences = [], []
    for place in places(emissions):
        row = law(place)
        variations.append(float(np.abs(row - place.p).sum()) / 2)
        likely = (row > 0) & (place.p > 0)
        divergences.append(float((row[likely] * np.log(row[likely] / place.p[likely])).sum()))
    return Distance(float(np.mean(variations)), float(np.mean(divergences)))


def places(emissions: Iterable[Emission]) -> Iterable[Place]:
    """The place of each token."""
    block: list[Emission] = []
    for emission in emissions:
        if emission.stratum.offset == 0:
            block = []
        draft = emission.target if emission.draft is None else emission.draft
        proposed = emission.stratum.offset < emission.stratum.proposals
        yield Place(emission.target, draft, emission.stratum.offset, proposed, tuple(block))
        block.append(emission)


def _ratio(p: Floats, q: Floats) -> Floats:
    """min(1, p / q), 1 where q = 0."""
    return np.minimum(1.0, np.divide(p, q, out=np.ones_like(p), where=q > 0))


def _residual(p: Floats, q: Floats) -> Floats:
    return _normalised(np.maximum(p - q, 0.0), p)


def _normalised(mass: Floats, otherwise: Floats) -> Floats:
    total = float(mass.sum())
    return mass / total if total > 0 else otherwise


def _topped_up(kept: Floats, rest: Floats) -> Floats:
    whole: Floats = kept + (1 - kept.sum()) * rest
    return whole


def _on_proposals(law: Callable[[Floats, Floats], Floats]) -> Law:
    return lambda place: law(place.p, place.q) if place.proposed else place.p


def _accepting(factor: float) -> Law:
    return _on_proposals(lambda p, q: _topped_up(np.minimum(q, factor * p), _residual(p, q)))


def _replacing(rest: Callable[[Floats, Floats], Floats]) -> Law:
    return _on_proposals(lambda p, q: _topped_up(np.minimum(p, q), rest(p, q)))


def _recording(recorded: Callable[[Floats], Floats]) -> Law:
    def law(p: Floats, q: Floats) -> Floats:
        said = recorded(q)
        return _topped_up(q * _ratio(p, said), _residual(p, said))

    return _on_proposals(law)


def _drawing(drawn: Callable[[Floats], Floats]) -> Law:
    return _on_proposals(lambda p, q: _topped_up(drawn(q) * _ratio(p, q), _residual(p, q)))


def _warmer(q: Floats) -> Floats:
    powers: Floats = q ** (1 / 1.5)
    return _normalised(powers, q)


def _point(q: Floats) -> Floats:
    row = np.zeros_like(q)
    row[int(q.argmax())] = 1.0
    return row


def _unnormalised(p: Floats, q: Floats) -> Floats:
    """The positive part drawn by cumulative sums; the last id takes what is missing."""
    excess = np.maximum(p - q, 0.0)
    excess[-1] += 1 - excess.sum()
    return excess


def _coin_of_the_draft(p: Floats, q: Floats) -> Floats:
    """The number that found the token among the cumulative sums of q is its coin too."""
    ends = np.cumsum(q)
    starts = ends - q
    return _topped_up(np.clip(_ratio(p, q) - starts, 0.0, q), _residual(p, q))


def _rejected_below(p: Floats, q: Floats) -> Callable[[Floats], Floats]:
    """Mass of rejected proposals whose own number lies below u: piecewise linear over the cumulative sums of q."""
    ends = np.concatenate([[0.0], np.cumsum(q)])
    mass = np.concatenate([[0.0], np.cumsum(q * (1 - _ratio(p, q)))])
    return lambda u: np.interp(u, ends, mass)


def _replacement_of_the_draft(p: Floats, q: Floats) -> Floats:
    """The number that found the rejected proposal finds its replacement."""
    sums = np.concatenate([[0.0], np.cumsum(_residual(p, q))])
    replaced: Floats = np.diff(_rejected_below(p, q)(sums))
    return np.minimum(p, q) + replaced


def _replacement_of_the_coin(p: Floats, q: Floats) -> Floats:
    """The coin that rejected the proposal, which lies above its ratio, finds its replacement."""
    ratios = _ratio(p, q)
    order = np.argsort(ratios)
    sorted_ratios, masses = ratios[order], q[order]
    # P(rejected, coin <= u) = sum of q (u - ratio) over ratios below u.
    counts, sums = (
        np.concatenate([[0.0], np.cumsum(masses)]),
        np.concatenate([[0.0], np.cumsum(masses * sorted_ratios)]),
    )
    edges = np.concatenate([[0.0], np.cumsum(_residual(p, q))])
    below = np.searchsorted(sorted_ratios, edges)
    replaced: Floats = np.diff(counts[below] * edges - sums[below])
    return np.minimum(p, q) + replaced


def _one_coin(place: Place) -> Floats:
    """A coin that accepted the proposals before lies below their ratios."""
    if not place.proposed:
        return place.p
    bound = 1.0
    for emission in place.before:
        if emission.draft is not None and emission.draft[emission.token] > 0:
            bound = min(bound, float(emission.target[emission.token] / emission.draft[emission.token]))
    kept = place.q * np.minimum(1.0, _ratio(place.p, place.q) / max(bound, 1e-300))
    return _topped_up(kept, _residual(place.p, place.q))


def _bonus(row: Callable[[Place], Floats]) -> Law:
    return lambda place: place.p if place.proposed or not place.before else row(place)


def _last_draft(place: Place) -> Floats:
    last = place.before[-1]
    return last.target if last.draft is None else last.draft


LAWS: dict[str, Law] = {
    "q-of-another-temperature": _recording(_warmer),
    "greedy-draft-called-sampled": _drawing(_point),
    "draft-truncated-q-full": _drawing(lambda q: _normalised(np.where(q >= np.sort(q)[-2], q, 0.0), q)),
    "q-missing-from-the-ratio": _on_proposals(lambda p, q: _topped_up(q * p, _residual(p, q))),
    "coin-is-draft-noise": _on_proposals(_coin_of_the_draft),
    "replacement-is-draft-noise": _on_proposals(_replacement_of_the_draft),
    "replacement-is-coin": _on_proposals(_replacement_of_the_coin),
    "one-coin-a-block": _one_coin,
    "lenient-acceptance": _accepting(1.05),
    "needless-rejection": _accepting(0.95),
    "residual-of-absolute-difference": _replacing(lambda p, q: _normalised(np.abs(p - q), p)),
    "residual-is-the-target": _replacing(lambda p, q: p),  # noqa: ARG005
    "residual-the-wrong-way-round": _replacing(lambda p, q: _residual(q, p)),
    "residual-not-normalised": _replacing(_unnormalised),
    "first-proposal-unverified": lambda place: place.q if place.proposed and place.offset == 0 else place.p,
    "bonus-from-the-draft": _bonus(_last_draft),
    "bonus-from-the-row-before": _bonus(lambda place: place.before[-1].target),
    "bonus-is-the-argmax": lambda place: place.p if place.proposed else _point(place.p),
}
"""Faults whose law can be written down."""
