"""Addressed randomness: Threefry-2x32 with 20 rounds, and the function from addresses to keys.

Rules `randomness.*` in `randomness.md`. Nothing here has state: a draw is named by where it is used, never by what
ran before it. The generator is that of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
(SC 2011), which is also MLX's; plain integers keep this copy obvious, and known-answer vectors tie it to both.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction

from eredu_spec.sites import obeys

Words = tuple[int, int]
"""Two unsigned 32-bit words: a key, a counter, or one block of output."""

WORD = 1 << 32
_MASK = WORD - 1
_PARITY = 0x1BD11BDA
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_BATCH = 0xFFFFFFFF

KNOWN_ANSWERS: tuple[tuple[Words, Words, Words], ...] = (
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
)
"""(key, counter, output) of Random123's published vectors for `threefry2x32` with 20 rounds."""


@obeys("randomness.roles-disjoint")
class Role(IntEnum):
    """What a draw decides. Roles are disjoint, so that no two decisions share a number."""

    DRAFT = 1
    """A proposal."""
    ACCEPT = 2
    """The coin of one acceptance."""
    RESIDUAL = 3
    """The replacement after a rejection."""
    TARGET = 4
    """A token that no proposal competes for: plain decoding, and the bonus."""
    NOISE = 5
    """The vector that target and drafter share under the coupled rule."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a draw is used: its role, an output position, and for draws of a whole round a number inside it."""

    role: Role
    position: int
    index: int = 0


@obeys("randomness.generator")
def threefry(key: Words, counter: Words) -> Words:
    """Encrypt one counter: a bijection of the two-word counter for each two-word key."""
    schedule = (key[0], key[1], _PARITY ^ key[0] ^ key[1])
    left = (counter[0] + schedule[0]) & _MASK
    right = (counter[1] + schedule[1]) & _MASK
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            left = (left + right) & _MASK
            right = ((right << turn) | (right >> (32 - turn))) & _MASK
            right ^= left
        left = (left + schedule[(group + 1) % 3]) & _MASK
        right = (right + schedule[(group + 2) % 3] + group + 1) & _MASK
    return left, right


def root(seed: int) -> Words:
    """Root of a request with a seed of its own, 0 to 2**64 - 1."""
    if not 0 <= seed < WORD * WORD:
        raise ValueError(f"seed was {seed}; expected an unsigned 64-bit number, 0 to 2**64 - 1")
    return seed >> 32, seed & _MASK


@obeys("randomness.address-to-key")
def batch_root(seed: int, request: int) -> Words:
    """Root of request number `request` of a call that has one seed for all its requests."""
    if not 0 <= request < WORD:
        raise ValueError(f"request was {request}; expected an unsigned 32-bit number")
    return threefry(root(seed), (_BATCH, request))


@obeys("randomness.address-to-key", "randomness.stateless")
def key(request_root: Words, address: Address) -> Words:
    """Key of an address: injective, because the counter is a bijective image of (role, index, position)."""
    if not 0 <= address.position < WORD:
        raise ValueError(f"position was {address.position}; expected an unsigned 32-bit number")
    if not 0 <= address.index < 1 << 24:
        raise ValueError(f"index was {address.index}; expected an unsigned 24-bit number")
    return threefry(request_root, (int(address.role) | address.index << 8, address.position))


@obeys("randomness.generator")
def words(draw: Words, count: int) -> tuple[int, ...]:
    """The first `count` 32-bit words of a draw: those of `mx.random.split(draw, ceil(count / 2))`, flattened."""
    half = (count + 1) // 2
    blocks = [threefry(draw, (i, i + half)) for i in range(half)]
    return (*(first for first, _ in blocks), *(second for _, second in blocks))[:count]


@obeys("randomness.coin-exact")
def coin(draw: Words) -> Fraction:
    """The uniform number of a draw, exact: a multiple of 2**-24 in [0, 1), so float32 holds it without rounding."""
    return Fraction(words(draw, 1)[0] >> 8, 1 << 24)
