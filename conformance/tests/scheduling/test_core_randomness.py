"""Addressed randomness: known answers, and the same function in the spec and in MLX."""

from __future__ import annotations

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eredu.contract.errors import OptionError
from eredu.contract.randomness import RequestRandomness, Role, Words, threefry
from eredu_spec import randomness as spec

word = st.integers(0, 2**32 - 1)
seed = st.integers(0, 2**64 - 1)

RANDOM123 = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]
"""Key, counter and block of Threefry-2x32-20, from the known-answer file of Random123."""


# rule: randomness.generator
@pytest.mark.parametrize(("key", "counter", "block"), RANDOM123)
def test_threefry_meets_the_known_answers_of_its_authors(key: Words, counter: Words, block: Words) -> None:
    assert threefry(key, counter) == block


@given(key=st.tuples(word, word), counter=st.tuples(word, word))
def test_threefry_is_that_of_the_spec(key: Words, counter: Words) -> None:
    assert threefry(key, counter) == spec.threefry(key, counter)


# rule: randomness.address-to-key
@given(seed=seed, request=word, role=st.sampled_from(list(Role)), position=word, index=st.integers(0, 2**24 - 1))
def test_addresses_are_those_of_the_spec(seed: int, request: int, role: Role, position: int, index: int) -> None:
    address = spec.Address(spec.Role(role.value), position, index)
    own, batch = RequestRandomness.from_seed(seed), RequestRandomness.from_batch(seed, request)
    assert own.root == spec.root(seed)
    assert batch.root == spec.batch_root(seed, request)
    assert own.key(role, position, index) == spec.key(own.root, address)
    assert batch.key(role, position, index) == spec.key(batch.root, address)


# rule: randomness.roles-disjoint
def test_roles_are_those_of_the_spec() -> None:
    assert {role.name: role.value for role in Role} == {role.name: role.value for role in spec.Role}


@given(key=st.tuples(word, word), count=st.integers(1, 40))
def test_mlx_draws_the_same_words(key: Words, count: int) -> None:
    half = (count + 1) // 2
    blocks = [threefry(key, (i, i + half)) for i in range(half)]
    expected = [block[0] for block in blocks] + [block[1] for block in blocks]
    words = mx.random.split(mx.array(key, dtype=mx.uint32), half).reshape(-1)
    assert words.tolist() == expected
    assert list(spec.words(key, count)) == expected[:count]


@given(seed=seed)
def test_a_root_is_the_key_that_mlx_makes_of_the_seed(seed: int) -> None:
    assert mx.random.key(seed).tolist() == list(RequestRandomness.from_seed(seed).root)


# rule: randomness.address-to-key, randomness.roles-disjoint
@given(root=st.tuples(word, word))
def test_no_two_addresses_share_a_key(root: Words) -> None:
    randomness = RequestRandomness(root)
    keys = [randomness.key(role, position, index) for role in Role for position in range(4) for index in range(4)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(("position", "index"), [(-1, 0), (2**32, 0), (0, -1), (0, 2**24)])
def test_an_address_out_of_range_is_refused(position: int, index: int) -> None:
    with pytest.raises(OptionError, match=f"position {position} and index {index}"):
        RequestRandomness.from_seed(0).key(Role.DRAFT, position, index)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(OptionError, match=str(seed)):
        RequestRandomness.from_seed(seed)
