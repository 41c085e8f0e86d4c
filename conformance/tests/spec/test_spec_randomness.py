"""The generator against its published vectors and MLX, and the addresses against each other."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import mlx.core as mx
import numpy as np
import pytest

from eredu_spec.randomness import KNOWN_ANSWERS, Address, Role, Words, batch_root, coin, key, root, threefry, words


@pytest.mark.parametrize(("draw", "counter", "expected"), KNOWN_ANSWERS)
def test_threefry_gives_the_published_vectors(draw: Words, counter: Words, expected: Words) -> None:
    assert threefry(draw, counter) == expected


@pytest.mark.parametrize("seed", [0, 1, 7, 2**31, 2**32 - 1, 2**32 + 5, 2**63 + 11, 2**64 - 1])
def test_a_root_is_the_key_that_mlx_makes_of_the_seed(seed: int) -> None:
    assert root(seed) == tuple(np.array(mx.random.key(seed)).tolist())


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 15, 64])
@pytest.mark.parametrize("seed", [0, 3, 2**40 + 17])
def test_the_words_of_a_draw_are_those_of_mlx_split(seed: int, count: int) -> None:
    draw = key(root(seed), Address(Role.RESIDUAL, position=9))
    split = mx.random.split(mx.array(draw, dtype=mx.uint32), (count + 1) // 2)
    assert list(words(draw, count)) == np.array(split).reshape(-1)[:count].tolist()


def test_addresses_have_different_keys() -> None:
    addresses = [Address(*parts) for parts in product(Role, range(64), range(16))]
    assert len({key(root(5), address) for address in addresses}) == len(addresses)


def test_a_threefry_block_is_undone_by_its_inverse_so_keys_are_injective() -> None:
    for address in (Address(Role.DRAFT, 0), Address(Role.NOISE, 2**32 - 1, 2**24 - 1)):
        draw = key(root(2**64 - 1), address)
        assert _decrypt(root(2**64 - 1), draw) == (address.role | address.index << 8, address.position)


def test_requests_of_a_batch_have_different_roots() -> None:
    roots = {batch_root(11, request) for request in range(256)}
    assert len(roots) == 256
    assert root(11) not in roots


def test_a_coin_is_a_multiple_of_two_to_the_minus_24_below_one() -> None:
    coins = [coin(key(root(1), Address(Role.ACCEPT, position))) for position in range(4096)]
    assert all(0 <= u < 1 and (u * 2**24).denominator == 1 for u in coins)
    assert all(Fraction(float(np.float32(float(u)))) == u for u in coins)
    mean = sum(coins, Fraction(0)) / len(coins)
    assert abs(mean - Fraction(1, 2)) < Fraction(6, 100)  # 13 standard errors: it only catches a broken scale


@pytest.mark.parametrize(
    "call",
    [
        lambda: root(2**64),
        lambda: root(-1),
        lambda: batch_root(0, 2**32),
        lambda: key((0, 0), Address(Role.DRAFT, 2**32)),
        lambda: key((0, 0), Address(Role.DRAFT, 0, 2**24)),
    ],
)
def test_an_address_outside_its_bits_is_refused(call: Callable[[], Words]) -> None:
    with pytest.raises(ValueError, match="expected an unsigned"):
        call()


def _decrypt(draw: Words, block: Words) -> Words:
    """The inverse of a block, written backwards from the paper rather than from the module under test."""
    parity = 0x1BD11BDA ^ draw[0] ^ draw[1]
    schedule = [draw[0], draw[1], parity]
    left, right = block
    for step in reversed(range(20)):
        if step % 4 == 3:
            group = step // 4
            left = (left - schedule[(group + 1) % 3]) % 2**32
            right = (right - schedule[(group + 2) % 3] - group - 1) % 2**32
        turn = [13, 15, 26, 6, 17, 29, 16, 24][step % 8]
        right ^= left
        right = (right >> turn | right << (32 - turn)) % 2**32
        left = (left - right) % 2**32
    return (left - schedule[0]) % 2**32, (right - schedule[1]) % 2**32
