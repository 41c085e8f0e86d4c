"""Addressed randomness: a draw's key is a pure function of where the draw is used, never of what ran before.

The generator is Threefry-2x32 with 20 rounds (Salmon et al., SC 2011), which is also MLX's: a key computed here
is a valid `mx.random` key. The executable spec has its own copy, and known-answer tests tie the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from eredu.contract.errors import OptionError

Words = tuple[int, int]
"""Two unsigned 32-bit words: a key, a counter or a block of output."""

_MASK = 0xFFFFFFFF
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_BATCH_TAG = 0xFFFFFFFF


# rule: randomness.roles-disjoint
class Role(IntEnum):
    """What a draw decides. Roles are disjoint, so no two decisions share a number."""

    DRAFT = 1
    """A proposal."""
    ACCEPT = 2
    """The coin of one acceptance."""
    RESIDUAL = 3
    """The replacement after a rejection."""
    TARGET = 4
    """A token that no proposal competes for: plain decoding and the bonus."""
    NOISE = 5
    """The shared Gumbel vector of the coupled rule."""


# rule: randomness.generator
def threefry(key: Words, counter: Words) -> Words:
    """One block of Threefry-2x32-20: a bijection of the counter for each key."""
    schedule = (key[0], key[1], _PARITY ^ key[0] ^ key[1])
    x, y = (counter[0] + schedule[0]) & _MASK, (counter[1] + schedule[1]) & _MASK
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x = (x + y) & _MASK
            y = ((y << rotation) | (y >> (32 - rotation))) & _MASK
            y ^= x
        x = (x + schedule[(group + 1) % 3]) & _MASK
        y = (y + schedule[(group + 2) % 3] + group + 1) & _MASK
    return x, y


@dataclass(frozen=True, slots=True)
class RequestRandomness:
    """The randomness of one request: a root, and nothing that could move."""

    root: Words

    @classmethod
    def from_seed(cls, seed: int) -> RequestRandomness:
        """Root of a request with a seed of its own, 0 to 2**64 - 1 (as `mx.random.key` splits it)."""
        if not 0 <= seed < 2**64:
            raise OptionError(f"seed was {seed}; expected 0 to 2**64 - 1")
        return cls((seed >> 32, seed & _MASK))

    # rule: randomness.address-to-key
    @classmethod
    def from_batch(cls, seed: int, request: int) -> RequestRandomness:
        """Root of request number `request` of a call with one seed for all."""
        return cls(threefry(cls.from_seed(seed).root, (_BATCH_TAG, request)))

    # rule: randomness.address-to-key, randomness.stateless, scheduling.requests-independent
    def key(self, role: Role, position: int, index: int = 0) -> Words:
        """Key of a draw.

        Args:
            role: What is decided.
            position: Output position of the token that is decided (0 is the first output token); for draws that
                belong to a whole round of block verification, the position of the round's first token.
            index: Number of the draw inside such a round, else 0.
        """
        if not (0 <= position < 2**32 and 0 <= index < 2**24):
            raise OptionError(f"no address has position {position} and index {index}: they take 32 and 24 bits")
        return threefry(self.root, (int(role) | index << 8, position))
