"""Addressed randomness: known answers, and the same function in the spec and in MLX."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eredu.contract.errors import OptionError
from eredu.contract.randomness import RequestRandomness, Role, Words, threefry
from eredu_spec import randomness as spec

word = st.integers(0, 2**32 - 1)
seed = st.integers(0, 2**64 - 1)


# rule: randomness.generator
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


@pytest.mark.parametrize(("position", "index"), [(-1, 0), (2**32, 0), (0, -1), (0, 2**24)])
def test_an_address_out_of_range_is_refused(position: int, index: int) -> None:
    with pytest.raises(OptionError, match=f"position {position} and index {index}"):
        RequestRandomness.from_seed(0).key(Role.DRAFT, position, index)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(OptionError, match=str(seed)):
        RequestRandomness.from_seed(seed)
