"""Power on the small checkpoint: its rows are right, strong faults are rejected at once, and a right engine is not."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from eredu_conformance.validator_power import DESIGNS
from eredu_conformance.validator_power.checkpoint_designs import CHECKPOINT_DESIGNS, CheckpointDesign
from eredu_conformance.validator_power.checkpoint_models import CheckpointHead
from eredu_conformance.validator_power.checkpoint_power import (
    SHOWN,
    TOLERANCE,
    checkpoint_line,
    measure_checkpoint,
    right_text,
)
from eredu_conformance.validator_power.checkpoint_subject import Checkpoint, CheckpointSubject
from eredu_conformance.validator_power.designs import LONG
from eredu_conformance.validator_power.enumerated import distance_of_outputs, enumerated_distance
from eredu_conformance.validator_power.laws import LAWS, places
from eredu_conformance.validator_power.power import tokens_to_reject
from eredu_conformance.validator_power.table_subject import OneNumberSource
from eredu_reference import PIECES, Sampling
from eredu_reference.caches import CacheRow
from eredu_reference.rows import softmax
from eredu_validation.evidence import Emission, Evidence, Terms, columns_of
from eredu_validation.evidence.shared_randomness_bets import (
    coin_of_the_draft,
    replacement_of_the_coin,
    replacement_of_the_draft,
)

LOUD = ["greedy-draft-called-sampled", "drafts-numbered-within-the-round"]
"""Faults that a hundred tokens show."""
SLOW = {"block-residual-unweighted", "block-proposals-by-position", "block-coins-by-position"}
"""Designs of long outputs."""
FAINT = [name for name, design in CHECKPOINT_DESIGNS.items() if design.chat is not None]
"""Faults whose design asks for the same few tokens again and again."""


@pytest.fixture(scope="session")
def checkpoint() -> Checkpoint:
    return Checkpoint.load()


@pytest.fixture(scope="session")
def right(checkpoint: Checkpoint) -> list[Emission]:
    """60 tokens of the right engine."""
    return list(islice(CheckpointDesign().subject_of(PIECES, checkpoint).emissions(1), 60))


def test_every_fault_has_a_design() -> None:
    assert set(CHECKPOINT_DESIGNS) == set(DESIGNS)


def test_rows_that_are_drawn_from_are_those_of_teacher_forcing(checkpoint: Checkpoint, right: list[Emission]) -> None:
    """Read block by block with rollbacks, and read at once on the plain path: within the tolerance, draft rows too."""
    history, depth = checkpoint.prompts[0], 2
    for emission in islice(right, 20):
        assert emission.request == 0, "the first output is long enough"
        target = softmax(checkpoint.rows.target_row(history))
        assert np.abs(target - emission.target).sum() / 2 < TOLERANCE
        assert emission.draft is not None
        draft = softmax(checkpoint.rows.draft_row(history, min(emission.stratum.offset, depth)))
        assert np.abs(draft - emission.draft).sum() / 2 < TOLERANCE
        history += (emission.token,)


def test_a_right_engine_is_not_rejected(right: list[Emission]) -> None:
    evidence = Evidence(Terms(alpha=0.01, tolerance=TOLERANCE), seeds=(1,))
    evidence.take(right)
    assert evidence.crossing is None


@pytest.mark.parametrize(
    "fault", [pytest.param(name, marks=pytest.mark.nightly) if name in SLOW else name for name in FAINT]
)
def test_the_design_of_a_faint_fault_accuses_no_right_engine(fault: str, checkpoint: Checkpoint) -> None:
    """Other drafts and renamed ids leave the law alone. A right build fails with a chance of 1e-3 at the most."""
    design = CHECKPOINT_DESIGNS[fault]
    evidence = Evidence(Terms(alpha=1e-3, tolerance=TOLERANCE), seeds=(1,))
    assert tokens_to_reject(design.subject_of(PIECES, checkpoint), evidence, 1, 1_000, cells=design.cells) is None


def test_ids_that_are_called_otherwise_change_no_greedy_output(checkpoint: Checkpoint) -> None:
    request = replace(LONG, prompt=checkpoint.prompts[0], max_tokens=12, sampling=Sampling(temperature=0.0))
    subject = CheckpointSubject(checkpoint=checkpoint, request=request, varied=False)
    wanted = subject.decode(request, OneNumberSource(random.Random(1)))
    for token in set(wanted[0]):
        renamed = replace(subject, zero=token)
        assert renamed.decode(request, OneNumberSource(random.Random(1))) == wanted


def test_a_drafter_is_as_sure_of_itself_as_it_is_told(checkpoint: Checkpoint) -> None:
    heads = [CheckpointHead(checkpoint.rows, temperature=temperature) for temperature in (1.0, 0.25)]
    found = []
    for head in heads:
        cache = head.new_cache()
        for position, token in enumerate(checkpoint.prompts[0]):
            cache.append(CacheRow(token, position, (0.0,)))
        cache.asked = True
        found.append(head.logits(cache))
    np.testing.assert_allclose(found[1], 4 * found[0])
    assert np.ptp(found[0]) > 1


@pytest.mark.parametrize("fault", LOUD)
def test_loud_faults_are_rejected_at_once(fault: str, checkpoint: Checkpoint) -> None:
    row = measure_checkpoint(fault, checkpoint, replace(CHECKPOINT_DESIGNS[fault], seeds=(1,), most_tokens=64))
    assert row.median is not None, checkpoint_line(row)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", SHOWN)
def test_every_fault_of_the_law_is_rejected(fault: str, checkpoint: Checkpoint) -> None:
    """At 1e-6; where the race has figures, with at most twice the tokens of its best test at equal divergence."""
    row = measure_checkpoint(fault, checkpoint, right=right_text(checkpoint) if fault in LAWS else ())
    assert row.median is not None, checkpoint_line(row)
    assert row.allowed is None or row.median <= row.allowed, checkpoint_line(row)


def under_its_own_law(fault: str, tokens: int) -> Evidence:
    """Evidence on a fault's tokens on tables, held against the law that is written down for it."""
    design = DESIGNS[fault]
    emissions = list(islice(design.subject(fault, 21).emissions(21), tokens))
    laws = [law / law.sum() for law in map(LAWS[fault], places(emissions))]
    evidence = Evidence(Terms(alpha=1e-3), seeds=(2,))
    evidence.take([replace(emission, target=law) for emission, law in zip(emissions, laws, strict=True)])
    return evidence


@pytest.mark.parametrize("fault", ["one-coin-a-block", "bonus-from-the-draft"])
def test_a_fault_draws_from_the_law_that_is_written_down(fault: str) -> None:
    """A right law crosses 1e-3 with a chance below 1e-3."""
    assert under_its_own_law(fault, 300).crossing is None


@pytest.mark.nightly
@pytest.mark.parametrize("fault", list(LAWS))
def test_every_fault_draws_from_the_law_that_is_written_down(fault: str) -> None:
    assert under_its_own_law(fault, 3_000).crossing is None


REUSED = {
    "coin-is-draft-noise": coin_of_the_draft,
    "replacement-is-draft-noise": replacement_of_the_draft,
    "replacement-is-coin": replacement_of_the_coin,
}


@pytest.mark.parametrize("fault", list(REUSED))
def test_bets_on_reused_numbers_name_the_law(fault: str, right: list[Emission]) -> None:
    """All rows at once, as the bets make them, and one by one."""
    some = right[:40]
    rows = REUSED[fault](columns_of(some, cells=len(some[0].target)))
    for place, row in zip(places(some), rows, strict=True):
        if place.proposed:
            assert np.abs(row - LAWS[fault](place)).max() < 1e-10


def test_outputs_are_a_distance_off_token_by_token() -> None:
    """Two tokens of two ids: the first right, the second off by 0.1 behind a 0 and right behind a 1."""
    rows = {(): [0.5, 0.5], (0,): [0.25, 0.75], (1,): [0.5, 0.5]}
    law: dict[tuple[int, ...], float] = {(0, 0): 0.5 * 0.35, (0, 1): 0.5 * 0.65, (1, 0): 0.25, (1, 1): 0.25}
    found = distance_of_outputs(law, lambda before: np.array(rows[before]))
    assert found.variation == pytest.approx(0.5 * 0.1 / 2)
    assert found.divergence == pytest.approx(0.5 * (0.35 * np.log(0.35 / 0.25) + 0.65 * np.log(0.65 / 0.75)) / 2)
    right: dict[tuple[int, ...], float] = {(0, 0): 0.125, (0, 1): 0.375, (1, 0): 0.25, (1, 1): 0.25}
    assert distance_of_outputs(right, lambda before: np.array(rows[before])).variation == pytest.approx(0)
    never = distance_of_outputs({(0,): 1.0}, lambda before: np.array(rows[before]))
    assert [never.variation, never.divergence] == pytest.approx([0.5, np.log(2)])


def test_a_right_engine_is_enumerated_to_no_distance(checkpoint: Checkpoint) -> None:
    subject = CHECKPOINT_DESIGNS["depth-from-a-discarded-draw"].subject_of(PIECES, checkpoint)
    assert enumerated_distance(subject).variation < TOLERANCE
