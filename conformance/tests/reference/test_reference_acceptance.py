"""The acceptance rules as functions of numbers: the law of one block, exactly, and the edges."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from eredu_conformance.harness.enumeration import enumerate_law
from eredu_reference import AcceptanceError
from eredu_reference.acceptance import (
    accepts,
    block_length,
    block_threshold,
    block_weights,
    coupled_length,
    greedy_length,
    rejection_length,
    residual,
)
from eredu_reference.models import random_rows
from eredu_reference.sources import Address, FixedUniform, Role

V, K = 3, 2


def tables(seed: Any) -> Any:
    """Rows of target and draft by the tokens before them, zeros included."""
    contexts = [key for length in range(K + 1) for key in product(range(V), repeat=length)]
    rows = [np.array(x) for x in random_rows(2 * len(contexts), V, seed=seed, zeros=0.2)]
    return dict(zip(contexts, rows, strict=False)), dict(zip(contexts, rows[len(contexts) :], strict=True))


def one_block(source: Any, target: Any, draft: Any, rule: Any) -> Any:
    """Output of one block of K proposals, completed by plain draws to K + 1 tokens."""
    proposals: tuple[int, ...] = ()
    for index in range(K):
        proposals += (source.categorical(Address(Role.DRAFT, 0, index), draft[proposals]),)
    targets = [target[proposals[:i]] for i in range(K + 1)]
    drafts = [draft[proposals[:i]] for i in range(K)]

    def coin(index: Any) -> Any:
        return source.uniform(Address(Role.ACCEPT, 0, index))

    if rule == "block":
        accepted = block_length(proposals, targets, drafts, coin)
        weight = block_weights(proposals, targets, drafts)[accepted]
    else:
        accepted, weight = rejection_length(proposals, targets, drafts, coin), 1.0
    row = targets[K] if accepted == K else residual(targets[accepted], drafts[accepted], weight)
    output = (*proposals[:accepted], source.categorical(Address(Role.RESIDUAL, 0), row))
    while len(output) < K + 1:
        output += (source.categorical(Address(Role.TARGET, len(output)), target[output]),)
    return output, accepted


def accepted_length(source: Any, *, target: Any, draft: Any, rule: str) -> int:
    return int(one_block(source, target, draft, rule)[1])


@pytest.mark.parametrize("rule", ["rejection", "block"])
@pytest.mark.parametrize("seed", range(4))
def test_one_block_has_the_law_of_the_target(rule: Any, seed: Any) -> None:
    target, draft = tables(seed)
    law = enumerate_law(lambda source: one_block(source, target, draft, rule)[0])
    for output in product(range(V), repeat=K + 1):
        expected = np.prod([target[output[:i]][output[i]] for i in range(K + 1)])
        assert law.get(output, 0.0) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_block_verification_is_never_shorter_in_expectation(seed: Any) -> None:
    target, draft = tables(seed)
    means = []
    for rule in ("rejection", "block"):
        law = enumerate_law(partial(accepted_length, target=target, draft=draft, rule=rule))
        means.append(sum(length * weight for length, weight in law.items()))
    assert means[1] >= means[0] - 1e-12


def test_acceptance_is_strict() -> None:
    assert not accepts(FixedUniform(0.0), 0.0, 0.5)
    assert not accepts(FixedUniform(0.5), 0.25, 0.5)
    assert accepts(FixedUniform(0.4999999), 0.25, 0.5)
    assert accepts(FixedUniform(1 - 2**-24), 0.5, 0.5)


@pytest.mark.parametrize(("target", "draft"), [(0.5, 0.0), (0.5, -0.1), (0.5, float("nan")), (float("nan"), 0.5)])
def test_impossible_numbers_are_errors(target: Any, draft: Any) -> None:
    with pytest.raises(AcceptanceError):
        accepts(FixedUniform(0.5), target, draft)


def test_residual() -> None:
    assert residual(np.array([0.5, 0.5]), np.array([0.25, 0.75])).tolist() == [1.0, 0.0]
    with pytest.raises(AcceptanceError, match="empty"):
        residual(np.array([0.5, 0.5]), np.array([0.5, 0.5]))


def test_threshold_of_weight_one_survives_a_residual_of_rounding_size() -> None:
    even, nearly = np.array([0.5, 0.5]), np.array([0.5 + 2**-53, 0.5 - 2**-53])
    assert block_threshold([1.0, 1.0, 1.0], 1, [even, nearly, even], [even, even]) == 1.0


def test_threshold_of_equal_rows_is_zero_below_the_whole_block() -> None:
    even = np.array([0.5, 0.5])
    assert block_threshold([1.0, 0.5, 0.5], 1, [even, even, even], [even, even]) == 0.0
    assert block_threshold([1.0, 0.5, 0.5], 2, [even, even, even], [even, even]) == 0.5


def test_lengths_stop_at_the_first_mismatch() -> None:
    rows = [np.array([0.1, 0.9]), np.array([0.9, 0.1]), np.array([0.5, 0.5])]
    assert greedy_length((1, 0), rows) == 2
    assert greedy_length((1, 1), rows) == 1
    assert greedy_length((0, 0), rows) == 0
    assert coupled_length((4, 5, 6), lambda index: (4, 5, 7)[index]) == 2
    assert rejection_length((), [rows[0]], [], lambda index: FixedUniform(0.0)) == 0
