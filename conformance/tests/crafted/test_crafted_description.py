"""Descriptions refuse what they can't realise, laws refuse what they aren't stated for, and pairs keep their aims."""

from __future__ import annotations

import numpy as np
import pytest

from eredu_conformance.crafted import (
    Architecture,
    BigramCheckpoint,
    CheckpointPair,
    HistoryError,
    LagCheckpoint,
    MemoryCheckpoint,
    PositionCheckpoint,
    crafted_pair,
    crafted_pairs,
)
from eredu_conformance.crafted.attention import theta_for
from eredu_conformance.crafted.tables import cycle_table, forbid, log_table, random_table, sum_table, table


def test_bigram_law_is_the_table() -> None:
    probabilities = forbid(random_table(3, (6, 6)), np.eye(6, dtype=bool))
    checkpoint = BigramCheckpoint(name="t", probabilities=probabilities, shift=3.0)
    for token in range(6):
        np.testing.assert_allclose(checkpoint.next_distribution([1, token]), probabilities[token], atol=1e-15)
        assert checkpoint.next_distribution([token])[token] == 0
    assert checkpoint.next_logits([0])[1] == pytest.approx(np.log(probabilities[0, 1]) + 3)


def test_lag_law_reads_the_earlier_token() -> None:
    probabilities = random_table(4, (4, 4, 4))
    checkpoint = LagCheckpoint(name="t", probabilities=probabilities, lag=2)
    np.testing.assert_allclose(checkpoint.next_distribution([3, 0, 1, 2]), probabilities[2, 0], atol=1e-15)
    np.testing.assert_allclose(checkpoint.next_distribution([3, 1]), probabilities[1, 3], atol=1e-15)
    np.testing.assert_allclose(checkpoint.next_distribution([3]), probabilities[3, 3], atol=1e-15)


def test_memory_counts_rows_in_view() -> None:
    checkpoint = MemoryCheckpoint(name="t", probabilities=np.full((3, 3), 1 / 3), gains=np.eye(3), sliding=4)
    np.testing.assert_allclose(checkpoint.memory([2, 2, 0, 1, 1, 0]), [0.5, 0.5, 0.0], atol=1e-15)
    np.testing.assert_allclose(checkpoint.memory([2]), [0, 0, 1], atol=1e-15)
    fading = MemoryCheckpoint(name="t", probabilities=np.full((3, 3), 1 / 3), gains=np.eye(3), fading=9.0)
    assert fading.memory([0, 1])[1] > fading.memory([1, 0])[1]


def test_position_law_is_a_product() -> None:
    probabilities = forbid(random_table(5, (4, 4)), np.arange(4) == 0)
    residues = random_table(6, (7, 4))
    checkpoint = PositionCheckpoint(name="t", probabilities=probabilities, residues=residues)
    product = probabilities[2] * residues[9 % 7]
    history = [0, *[1] * 8, 2]
    np.testing.assert_allclose(checkpoint.next_distribution(history), product / product.sum(), atol=1e-15)
    assert checkpoint.next_distribution(history)[0] == 0


def test_output_law_multiplies() -> None:
    probabilities = np.array([[0.5, 0.5, 0.0], [0.0, 0.2, 0.8], [1.0, 0.0, 0.0]])
    checkpoint = BigramCheckpoint(name="t", probabilities=probabilities)
    law = checkpoint.output_law([0], 2)
    expected: dict[tuple[int, ...], float] = {(0, 0): 0.25, (0, 1): 0.25, (1, 1): 0.1, (1, 2): 0.4}
    assert set(law) == set(expected)
    assert all(abs(law[output] - expected[output]) < 1e-12 for output in law)
    hot = checkpoint.output_law([1], 1, temperature=0.5)
    assert hot == pytest.approx({(1,): 0.04 / 0.68, (2,): 0.64 / 0.68})


@pytest.mark.parametrize("history", [[], [4], [-1, 0], [0] * 65])
def test_bigram_refuses_histories(history: list[int]) -> None:
    checkpoint = BigramCheckpoint(name="t", probabilities=np.full((4, 4), 0.25))
    with pytest.raises(HistoryError, match="t: "):
        checkpoint.next_distribution(history)


@pytest.mark.parametrize("history", [[0], [1, 2], [0, 1, 0, 2]])
def test_position_refuses_histories(history: list[int]) -> None:
    with pytest.raises(HistoryError, match="position-7"):
        crafted_pair("position").target.next_logits(history)


def test_descriptions_refuse() -> None:
    square = np.full((4, 4), 0.25)
    with pytest.raises(ValueError, match="misses the sum 1"):
        BigramCheckpoint(name="t", probabilities=square + 0.01)
    with pytest.raises(ValueError, match="negative or NaN"):
        table([[np.nan, 1.0]])
    with pytest.raises(ValueError, match="expected a square"):
        BigramCheckpoint(name="t", probabilities=np.full((3, 4), 0.25))
    with pytest.raises(ValueError, match="eos was 4"):
        BigramCheckpoint(name="t", probabilities=square, eos=4)
    with pytest.raises(ValueError, match="2 to 64"):
        BigramCheckpoint(name="t", probabilities=np.eye(65))
    with pytest.raises(ValueError, match="up to 12"):
        LagCheckpoint(name="t", probabilities=sum_table(13))
    with pytest.raises(ValueError, match="rows 1 to 3 back"):
        LagCheckpoint(name="t", probabilities=sum_table(4), lag=4, sliding=4)
    with pytest.raises(ValueError, match="anchor"):
        PositionCheckpoint(name="t", probabilities=square, residues=np.full((7, 4), 0.25))
    with pytest.raises(ValueError, match="the period was 6"):
        PositionCheckpoint(name="t", probabilities=square, residues=np.full((6, 4), 0.25))
    with pytest.raises(ValueError, match="use llama"):
        _ = MemoryCheckpoint(
            name="t", probabilities=square, gains=square, sliding=4, architecture=Architecture.QWEN3
        ).decoder
    with pytest.raises(ValueError, match="less than 1 radian"):
        theta_for(1.5, 4)
    with pytest.raises(ValueError, match="leave at least one"):
        forbid(square, np.ones((4, 4), dtype=bool))


def test_tables_are_read_only() -> None:
    checkpoint = BigramCheckpoint(name="t", probabilities=np.full((4, 4), 0.25))
    with pytest.raises(ValueError, match="read-only"):
        checkpoint.probabilities[0, 0] = 1.0


def test_pair_refuses_two_vocabularies() -> None:
    small, large = (BigramCheckpoint(name=f"c{v}", probabilities=cycle_table(v)) for v in (4, 5))
    with pytest.raises(ValueError, match="shares one vocabulary"):
        CheckpointPair("p", small, large, (0,), "none")


def test_pairs_keep_their_aims() -> None:
    def tables(name: str) -> tuple[np.ndarray, np.ndarray]:
        pair = crafted_pair(name)
        assert isinstance(pair.target, BigramCheckpoint)
        assert isinstance(pair.draft, BigramCheckpoint)
        return pair.target.probabilities, pair.draft.probabilities

    p, q = tables("disjoint")
    assert np.all(np.minimum(p, q) == 0)
    p, q = tables("holes")
    assert np.any((p == 0) & (q > 0))
    assert np.any((q == 0) & (p > 0))
    assert np.all(np.minimum(p, q).sum(axis=1) > 0)
    p, q = tables("table-equal")
    assert p is q
    p, q = tables("ties")
    assert np.ptp(log_table(p)) == 0
    assert crafted_pair("cycle-wrong").target.greedy_path((2, 3), 3) == (4, 5, 6)
    with pytest.raises(KeyError, match="known: table,"):
        crafted_pair("nothing")


@pytest.mark.parametrize("pair", crafted_pairs(), ids=lambda p: p.name)
def test_greedy_path_is_long_enough_to_use(pair: CheckpointPair) -> None:
    path = pair.target.greedy_path(pair.prompt, pair.context_limit - len(pair.prompt))
    assert pair.name in {"ties"} or len(set(path)) >= 3
