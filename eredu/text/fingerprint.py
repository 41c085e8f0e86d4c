"""Identity of a tokenizer: equal fingerprints mean that every id stands for the same token string.

A drafter's proposals are ids, so an assistant whose ids mean other strings would be verified against nonsense: it
would still be lossless, and useless. Names and revisions of repositories are no part of the identity.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from eredu.contract.errors import TokenizerError
from eredu.text.vocabulary import Vocabulary

DOMAIN = b"eredu.tokenizer-fingerprint.v1\0"
MISSING = 2**64 - 1
"""Stands where the length would: no token string is that long."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """SHA-256 over the domain tag, the vocabulary size, and (id, length in UTF-8 bytes, string) of every id.

    Attributes:
        vocabulary_size: Ids covered, one past the highest assigned one; added tokens are among them.
        digest: The hash, 64 hexadecimal digits.
    """

    vocabulary_size: int
    digest: str

    def to_json(self) -> dict[str, str | int]:
        """The stable form."""
        return {"vocabulary_size": self.vocabulary_size, "sha256": self.digest}


def fingerprint(vocabulary: Vocabulary) -> Fingerprint:
    """Fingerprint of a vocabulary; numbers are hashed as 64-bit little-endian words."""
    parts = [DOMAIN, struct.pack("<Q", vocabulary.size)]
    for token_id, token in enumerate(vocabulary.tokens):
        if token is None:
            parts.append(struct.pack("<QQ", token_id, MISSING))
        else:
            spelled = token.encode("utf-8", "surrogatepass")
            parts.append(struct.pack("<QQ", token_id, len(spelled)) + spelled)
    return Fingerprint(vocabulary.size, hashlib.sha256(b"".join(parts)).hexdigest())


def first_difference(target: Vocabulary, drafter: Vocabulary) -> int | None:
    """The lowest id whose token strings differ, None where there is none."""
    ids = range(max(target.size, drafter.size))
    return next((i for i in ids if target.token(i) != drafter.token(i)), None)


def require_same_tokenizer(target: Vocabulary, drafter: Vocabulary) -> Fingerprint:
    """The common fingerprint. Raises `TokenizerError` that names sizes, the first differing id and both strings."""
    at = first_difference(target, drafter)
    if at is None:
        return fingerprint(target)
    raise TokenizerError(
        f"the assistant's tokenizer is not the target's: the target has {target.size} ids "
        f"(fingerprint {fingerprint(target).digest[:12]}), the assistant {drafter.size} "
        f"(fingerprint {fingerprint(drafter).digest[:12]}); the first difference is id {at}: "
        f"{_spelled(target.token(at))} in the target, {_spelled(drafter.token(at))} in the assistant. "
        "Proposals are ids, so both must use one tokenizer: take an assistant made for this target"
    )


def _spelled(token: str | None) -> str:
    return "no token" if token is None else repr(token)
