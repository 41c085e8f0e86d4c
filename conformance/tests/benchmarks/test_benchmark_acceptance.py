"""Figures of benchmarks against the same figures counted or computed in another way."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from eredu.contract.errors import OptionError
from eredu.engine.checkpoint import load_checkpoint
from eredu.engine.mlx_backend import Assistant, MlxBackend
from eredu.loaded import LoadedModel
from eredu.mlx.placement import Placement
from eredu_benchmarks.acceptance import AcceptanceProfile
from eredu_benchmarks.alignment import DEPTH, AlignedRows, align, align_chat
from eredu_benchmarks.clustered import Estimate
from eredu_benchmarks.held_out import Chat
from eredu_benchmarks.pair import BenchmarkPair
from eredu_benchmarks.run import VerifiedRound
from eredu_conformance.crafted import CheckpointPair, crafted_pair


@pytest.fixture(scope="module")
def crafted() -> CheckpointPair:
    return crafted_pair("order-2")


@pytest.fixture(scope="module")
def loaded(crafted: CheckpointPair, tmp_path_factory: pytest.TempPathFactory) -> BenchmarkPair:
    paths = crafted.write(tmp_path_factory.mktemp("pair"))
    target, draft = (load_checkpoint(path, tokenizer=None) for path in paths)
    return BenchmarkPair(LoadedModel(MlxBackend(target, Placement.choose())), Assistant(draft))


def tempered(distribution: np.ndarray, temperature: float) -> np.ndarray:
    weights = distribution ** (1 / temperature)
    return np.asarray(weights / weights.sum())


def sampled_chat(crafted: CheckpointPair, seed: int, length: int = 30) -> Chat:
    generator = np.random.default_rng(seed)
    tokens = list(crafted.prompt)
    for _ in range(length):
        law = crafted.target.next_distribution(tokens)
        tokens.append(int(generator.choice(len(law), p=law)))
    return Chat(np.array(tokens), len(crafted.prompt))


def chance_of_chain(crafted: CheckpointPair, history: Sequence[int], length: int) -> float:
    """Chance that the ratio rule takes `length` proposals in a row, summed over every proposal there is."""
    if length == 0:
        return 1.0
    p = crafted.target.next_distribution(history)
    q = crafted.draft.next_distribution(history)
    return float(sum(
        q[x] * min(1.0, p[x] / q[x]) * chance_of_chain(crafted, [*history, x], length - 1)
        for x in range(len(q))
        if q[x] > 0
    ))  # fmt: skip


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_rows_are_those_of_the_laws(loaded: BenchmarkPair, crafted: CheckpointPair, temperature: float) -> None:
    chat = sampled_chat(crafted, 3)
    rows = align_chat(loaded, chat, temperature)
    assert len(rows.accept) == len(rows.follow) == 30
    for at, (accept, follow) in enumerate(zip(rows.accept, rows.follow, strict=True), start=chat.prompt_length):
        history, token = chat.tokens[:at].tolist(), chat.tokens[at]
        p = tempered(crafted.target.next_distribution(history), temperature)
        q = tempered(crafted.draft.next_distribution(history), temperature)
        assert accept == pytest.approx(np.minimum(p, q).sum(), abs=1e-5)
        assert follow == pytest.approx(min(1.0, q[token] / p[token]), abs=1e-4)


def test_greedy_rows_compare_argmaxes(loaded: BenchmarkPair, crafted: CheckpointPair) -> None:
    chat = sampled_chat(crafted, 4)
    rows = align_chat(loaded, chat, 0.0)
    histories = [chat.tokens[:at].tolist() for at in range(chat.prompt_length, len(chat.tokens))]
    both = [(crafted.target.next_distribution(h), crafted.draft.next_distribution(h)) for h in histories]
    agreeing = [float(np.argmax(p) == np.argmax(q)) for p, q in both]
    assert rows.accept.tolist() == rows.follow.tolist() == agreeing
    assert 0 < sum(agreeing) < len(agreeing)


def test_chain_is_unbiased(loaded: BenchmarkPair, crafted: CheckpointPair) -> None:
    """Over all texts that the target could have written, weighted by its law, chain is the rule's own chance."""
    prompt = list(crafted.prompt)
    totals = np.zeros(DEPTH)
    for text in itertools.product(range(crafted.target.vocabulary), repeat=DEPTH):
        histories = [[*prompt, *text[:at]] for at in range(DEPTH)]
        p = [crafted.target.next_distribution(history) for history in histories]
        q = [crafted.draft.next_distribution(history) for history in histories]
        weight = math.prod(float(p[at][token]) for at, token in enumerate(text))
        accept = np.array([np.minimum(p[at], q[at]).sum() for at in range(DEPTH)])
        follow = np.array([min(1.0, q[at][token] / p[at][token]) for at, token in enumerate(text)])
        rows = AlignedRows(accept, follow)
        totals += weight * np.array([rows.chain(length)[0] for length in range(1, DEPTH + 1)])
    exact = [chance_of_chain(crafted, prompt, length) for length in range(1, DEPTH + 1)]
    assert totals == pytest.approx(exact, abs=1e-9)


def test_alignment_adds_up(loaded: BenchmarkPair, crafted: CheckpointPair) -> None:
    chats = [sampled_chat(crafted, seed, length) for seed, length in enumerate((30, 2, 12, 25))]
    done: list[int] = []
    found = align(loaded, chats, 1.0, advance=lambda: done.append(1))
    assert len(done) == found.accept.clusters == 4
    assert found.accept.rows == 69
    assert {link.rows for link in found.chain} == {27 + 0 + 9 + 22}
    assert [link.clusters for link in found.chain] == [3] * DEPTH
    assert found.expected_tokens == pytest.approx(1 + sum(link.mean for link in found.chain))
    means = [link.mean for link in found.chain]
    assert means == sorted(means, reverse=True)
    assert found.to_json()["accept"] == [found.accept.mean] * DEPTH


def test_chats_of_another_tokenizer_are_refused(loaded: BenchmarkPair) -> None:
    with pytest.raises(OptionError, match="use id 9, which this pair has no token for"):
        align(loaded, [Chat(np.array([1, 9, 2]), 1)], 1.0)


def test_clustered_error_sees_the_clusters() -> None:
    """Rows copied within a cluster add nothing: the error is that of the clusters, and does not shrink."""
    generator = np.random.default_rng(0)
    values = generator.normal(0.5, 0.1, 50)
    single = Estimate.of([np.array([value]) for value in values])
    copied = Estimate.of([np.full(20, value) for value in values])
    assert single.mean == pytest.approx(copied.mean)
    assert single.error == pytest.approx(values.std(ddof=1) / math.sqrt(50))
    assert copied.error == pytest.approx(single.error)
    assert copied.distance(copied.mean + 2 * copied.error) == pytest.approx(2)


def test_clustered_error_covers() -> None:
    """Of 400 samples of 60 clusters of uneven size, 95 % hold the truth within 1.96 errors; 90 % would be a fault."""
    generator, hits = np.random.default_rng(1), 0
    for _ in range(400):
        sizes = generator.integers(1, 40, 60)
        centres = generator.normal(0.3, 0.2, 60)
        clusters = [generator.normal(c, 0.1, n) for c, n in zip(centres, sizes, strict=True)]
        hits += Estimate.of(clusters).distance(0.3) < 1.96
    assert 0.91 < hits / 400 < 0.985


def test_error_of_one_cluster_is_unknown() -> None:
    assert math.isnan(Estimate.of([np.array([0.1, 0.2]), np.array([])]).error)


def test_profile_counts_by_hand() -> None:
    profile = AcceptanceProfile.of(
        [
            VerifiedRound(proposals=3, accepted=3, emitted=4),
            VerifiedRound(proposals=3, accepted=1, emitted=2),
            VerifiedRound(proposals=3, accepted=0, emitted=1),
            VerifiedRound(proposals=3, accepted=3, emitted=2),  # the output ended with its second proposal
            VerifiedRound(proposals=1, accepted=1, emitted=2),  # the budget left room for one proposal
        ]
    )
    assert profile.drafted == (5, 4, 4)
    assert profile.examined == (5, 3, 1)
    assert profile.accepted == (4, 2, 1)
    assert profile.conditional == pytest.approx((4 / 5, 2 / 3, 1))
    assert profile.chain == pytest.approx((4 / 5, 8 / 15, 8 / 15))
    assert profile.tokens_per_round == 11 / 5
    assert profile.implied_tokens_per_round == pytest.approx(1 + 4 / 5 + (8 / 15) * (4 / 5) * 2)
    assert profile.unhurried_tokens_per_round == pytest.approx(1 + 4 / 5 + 8 / 15 * 2)


def test_profile_implies_what_full_rounds_had() -> None:
    """Where nothing is cut, the implied tokens a round are the measured ones, whatever the acceptance was."""
    lengths = np.random.default_rng(2).integers(0, 5, 500)
    profile = AcceptanceProfile.of(VerifiedRound(4, int(length), int(length) + 1) for length in lengths)
    assert profile.implied_tokens_per_round == pytest.approx(profile.tokens_per_round)
    assert profile.implied_tokens_per_round == profile.unhurried_tokens_per_round


def test_profile_of_nothing() -> None:
    empty = AcceptanceProfile.of([])
    assert (empty.tokens_per_round, empty.implied_tokens_per_round) == (0.0, 0.0)
