"""The ids of a tokenizer and their token strings, and which logit rows of a model they cover.

A checkpoint may have more logit rows than its tokenizer has ids (rows padded to a round number). Such padding ids
have no text: they are never proposable and never emitted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from eredu.contract.errors import TokenizerError


@dataclass(frozen=True)
class Vocabulary:
    """Token strings by id, as the tokenizer's own file spells them (byte-level or SentencePiece alphabet).

    Attributes:
        tokens: The string of each id from 0; None where the id is not assigned. The last one is assigned.
        added_ids: Ids added beside the trained vocabulary: their strings are plain text, matched whole.
        special_ids: The added or trained ids that steer (begin, end, roles): text hides them.
        ids: Inverse of `tokens`; where two ids share a string, the lower.
    """

    tokens: tuple[str | None, ...] = field(repr=False)
    added_ids: frozenset[int] = field(default=frozenset(), repr=False)
    special_ids: frozenset[int] = field(default=frozenset())
    ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tokens = self.tokens
        while tokens and tokens[-1] is None:
            tokens = tokens[:-1]
        if not tokens:
            raise TokenizerError("a tokenizer was given without a single token; expected a vocabulary of at least one")
        object.__setattr__(self, "tokens", tokens)
        by_token = {token: i for i, token in reversed(list(enumerate(tokens))) if token is not None}
        object.__setattr__(self, "ids", by_token)

    @property
    def size(self) -> int:
        """One past the highest assigned id."""
        return len(self.tokens)

    def token(self, token_id: int) -> str | None:
        """The string of an id, None where it is not assigned (a padding id, a hole)."""
        return self.tokens[token_id] if 0 <= token_id < len(self.tokens) else None

    def padding_ids(self, rows: int) -> tuple[int, ...]:
        """Ids below `rows`, the number of logit rows of a model, that stand for no token; in order."""
        return tuple(i for i in range(rows) if self.token(i) is None)
