"""The forced pairs: every accepted length occurs, and the laws are the targets' own."""

from __future__ import annotations

from collections import Counter

import pytest

from eredu_conformance.checks.forced_pairs import PARTS, SENSITIVE, forced_pair
from eredu_conformance.checks.pairs import every_checkpoint, every_pair
from eredu_conformance.checks.state.rollback import TOKENS
from eredu_conformance.checks.state.simulation import greedy_rounds
from eredu_conformance.crafted import crafted_pair


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("name", SENSITIVE)
def test_every_accepted_length_occurs(name: str, depth: int) -> None:
    lengths: Counter[int] = Counter()
    for part in (None, *PARTS):
        pair = forced_pair(name, part)
        rounds = greedy_rounds(pair, pair.prompt, proposals=depth, tokens=TOKENS)
        lengths.update(item.accepted for item in rounds if item.proposed == depth)
    assert set(lengths) == set(range(depth + 1))


def test_simulated_rounds_make_up_the_output() -> None:
    pair = forced_pair("order-2", 1)
    rounds = greedy_rounds(pair, pair.prompt, proposals=3, tokens=17)
    assert sum(item.accepted + 1 for item in rounds) == 17
    assert [item.start for item in rounds[1:]] == [item.start + item.accepted + 1 for item in rounds[:-1]]


def test_only_the_draft_is_spoilt() -> None:
    for name in SENSITIVE:
        assert forced_pair(name, 0).target is crafted_pair(name).target
        assert forced_pair(name, None).draft is crafted_pair(name).target


def test_names_are_unique() -> None:
    assert len({checkpoint.name for checkpoint in every_checkpoint()}) == len(every_checkpoint())
    assert all(pair.name == name for name, pair in every_pair().items())
