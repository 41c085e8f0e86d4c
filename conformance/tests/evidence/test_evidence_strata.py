"""What may be conditioned on: strata are known before their tokens; accepted and replaced tokens are not strata."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from eredu_conformance.validator_power import TableSubject
from eredu_conformance.validator_power.designs import LONG, PowerDesign
from eredu_conformance.validator_power.table_subject import CachedTable, OneNumberSource
from eredu_reference import PIECES, Drafter, Schedule, decode_speculative
from eredu_reference.models import TableModel
from eredu_validation.evidence import (
    Columns,
    Emission,
    Evidence,
    Order,
    Round,
    Stratum,
    Terms,
    columns_of,
    diagnose,
    strata_of,
)
from eredu_validation.evidence.diagnostics import g_test
from eredu_validation.evidence.transforms import transform


def test_strata_follow_from_the_rounds() -> None:
    rounds = [
        Round(proposals=3, emitted=2),
        Round(proposals=2, emitted=3, promoted=True),
        Round(proposals=0, emitted=1),
    ]
    strata = strata_of(rounds, label="batch 4")
    assert [(s.offset, s.proposals, s.promoted, s.redrafted) for s in strata] == [
        (0, 3, False, False),
        (1, 3, False, False),
        (0, 2, True, True),
        (1, 2, True, False),
        (2, 2, True, False),
        (0, 0, False, False),
    ]
    assert [s.name for s in strata][2:] == [
        "offset 0, promoted, redrafted, batch 4",
        "offset 1, promoted, batch 4",
        "no proposal, promoted, batch 4",
        "no proposal, batch 4",
    ]


def subject(seed: int) -> TableSubject:
    return PowerDesign().subject("bonus-from-the-draft", seed)


def test_the_law_given_the_outcome_is_another_law() -> None:
    """A right engine: offsets fit, each outcome is rejected at once. The fits fail with a chance of 2e-9."""
    right = replace(subject(21), pieces=PIECES)
    models = CachedTable.of(right.target), Drafter(CachedTable.of(right.drafter))
    emissions: dict[str, list[Emission]] = {name: [] for name in ("accepted", "replaced", "bonus", "offset 0")}
    for index in range(60):
        request = replace(right.request, prompt=(index % 8,))
        source = OneNumberSource(random.Random(index))
        report = decode_speculative(*models, request, schedule=right.schedule, source=source)
        history = request.prompt
        for done in report.rounds:
            for offset, token in enumerate(done.emitted):
                item = _emission(right, history, token, offset, len(done.proposals))
                supplied = "replaced" if done.replaced else "bonus"
                emissions["accepted" if offset < done.accepted else supplied].append(item)
                if offset == 0 and done.proposals:
                    emissions["offset 0"].append(item)
                history += (token,)
    p_values = {name: _p_value(columns_of(items)) for name, items in emissions.items()}
    assert min(p_values["offset 0"], p_values["bonus"]) > 1e-9, p_values
    assert max(p_values["accepted"], p_values["replaced"]) < 1e-20, p_values


def _emission(right: TableSubject, history: tuple[int, ...], token: int, offset: int, proposals: int) -> Emission:
    key = history[-1:]
    return Emission(
        token=token,
        target=np.array(right.target.rows[key]),
        draft=np.array(right.drafter.rows[key]),
        stratum=Stratum(offset=offset, proposals=proposals),
        request=0,
        position=0,
    )


def _p_value(columns: Columns) -> float:
    uniforms = transform(columns, Order.RATIO, np.random.default_rng(3).random(len(columns)))
    cells = tuple(np.histogram(uniforms, 64, (0, 1))[0].tolist())
    return g_test(cells, Order.RATIO, "x", tolerance=0.0).p_value


def test_promoted_blocks_are_a_stratum_of_their_own() -> None:
    table = TableModel.random(4, order=1, seed=5, sharpness=3.0)
    right = TableSubject(target=table, drafter=table, request=LONG, schedule=Schedule(adaptive_window=None))
    evidence = Evidence(Terms(), seeds=(1,))
    evidence.take(right.columns(1, 600))
    names = set(evidence.tally.strata)
    assert {"offset 0, promoted", "offset 0", "no proposal, promoted"} <= names
    assert evidence.crossing is None


def test_diagnostics_point_at_the_stratum(wrong: Columns) -> None:
    evidence = Evidence(Terms(), seeds=(1,))
    evidence.take(wrong)
    tests = {(t.stratum, t.order): t.p_value for t in diagnose(evidence.tally, tolerance=0.0) if t.name == "G"}
    assert tests["no proposal", Order.RATIO] < 1e-12
    assert min(p for (stratum, _), p in tests.items() if stratum.startswith("offset")) > 1e-6


def test_transforms_by_hand() -> None:
    columns = columns_of(
        [
            Emission(
                token=token,
                target=np.array([0.5, 0.2, 0.3]),
                draft=np.array([0.1, 0.6, 0.3]),
                stratum=Stratum(offset=0, proposals=1),
                request=0,
                position=0,
            )
            for token in range(3)
        ]
    )
    lift = np.full(3, 0.5)
    assert transform(columns, Order.ID, lift) == pytest.approx([0.25, 0.6, 0.85])
    assert transform(columns, Order.RATIO, lift) == pytest.approx([0.25, 0.9, 0.65])
    assert transform(columns, Order.RANK, lift) == pytest.approx([0.25, 0.9, 0.65])


def test_the_order_is_the_alternative() -> None:
    """Sorted by q / p, a leak moves the transform by its whole total variation; sorted by id, by less."""
    generator = np.random.default_rng(2)
    p, q = (np.array(TableModel.random(8, order=1, seed=seed).rows[(0,)]) for seed in (3, 4))
    law = 0.7 * p + 0.3 * q
    tokens = generator.choice(8, size=40_000, p=law)
    one = Emission(token=0, target=p, draft=q, stratum=Stratum(offset=0, proposals=1), request=0, position=0)
    columns = replace(
        columns_of([one]),
        tokens=tokens,
        target=np.tile(p, (len(tokens), 1)),
        draft=np.tile(q, (len(tokens), 1)),
    )
    variation = float(np.abs(law - p).sum() / 2)
    distance = {}
    for order in (Order.ID, Order.RATIO):
        uniforms = np.sort(transform(columns, order, generator.random(len(tokens))))
        distance[order] = float(np.abs(uniforms - np.arange(1, len(tokens) + 1) / len(tokens)).max())
    # Massart: an error above 0.013 has a chance of 3e-6.
    assert distance[Order.RATIO] == pytest.approx(variation, abs=0.013)
    assert distance[Order.ID] < variation - 0.026
