"""SentencePiece BPE over the pieces and scores that a GGUF of the `llama` tokenizer model holds.

The merge rule is SentencePiece's own (Kudo and Richardson 2018, arXiv 1808.06226; `bpe_model.cc`): of all neighbouring
symbols whose concatenation is a piece, the pair with the highest score is merged first, the leftmost on ties.
Characters without a piece become byte pieces. The merges of a tokenizer.json are only derived from this rule, and
break its ties differently.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from eredu.contract.errors import TokenizerError
from eredu.text.pieces import BYTE_PIECES, METASPACE
from eredu.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class SentencePieceEncoder:
    """Encoder of one vocabulary.

    Attributes:
        vocabulary: Pieces; every byte piece is among them.
        scores: Score of every id.
        space_prefix: Whether a text, and each text behind an added token, begins with a space of its own.
        before: Ids before every text (begin of text), if special tokens are asked for.
        after: Ids behind it.
    """

    vocabulary: Vocabulary
    scores: Sequence[float] = field(repr=False)
    space_prefix: bool
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        missing = [piece for piece in BYTE_PIECES if piece not in self.vocabulary.ids]
        if missing:
            raise TokenizerError(
                f"the vocabulary lacks {len(missing)} of the 256 byte pieces, such as {missing[0]}, so some text has "
                "no exact ids; load the model's Hugging Face tokenizer.json instead"
            )
        if len(self.scores) < self.vocabulary.size:
            raise TokenizerError(
                f"the vocabulary has {self.vocabulary.size} pieces and {len(self.scores)} scores; expected one each: "
                "the file is damaged"
            )

    @cached_property
    def _added(self) -> re.Pattern[str] | None:
        words = sorted((str(self.vocabulary.token(i)) for i in self.vocabulary.added_ids), key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, words))})") if words else None

    @cached_property
    def _mergeable(self) -> Mapping[str, float]:
        """Scores of the pieces that merging may make: not added tokens, matched whole before, nor bytes."""
        ids, added = self.vocabulary.ids, self.vocabulary.added_ids
        return {piece: self.scores[i] for piece, i in ids.items() if i not in added and piece not in BYTE_PIECES}

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Ids of the text."""
        fragments = self._added.split(text) if self._added else [text]
        ids: list[int] = []
        for i, fragment in enumerate(fragments):
            if i % 2:
                ids.append(self.vocabulary.ids[fragment])
            elif fragment:
                ids += self._encode_fragment(fragment)
        return [*self.before, *ids, *self.after] if add_special_tokens else ids

    def _encode_fragment(self, fragment: str) -> list[int]:
        spaced = f" {fragment}" if self.space_prefix else fragment
        ids: list[int] = []
        for piece in merge_pieces(spaced.replace(" ", METASPACE), self._mergeable):
            if piece in self._mergeable:
                ids.append(self.vocabulary.ids[piece])
            else:
                ids += [self.vocabulary.ids[f"<0x{byte:02X}>"] for byte in piece.encode()]
        return ids


def merge_pieces(text: str, scores: Mapping[str, float]) -> list[str]:
    """Split a text by merging its characters: the best-scored neighbours first, the leftmost on ties."""
    symbols: list[str] = list(text)
    left = list(range(-1, len(symbols) - 1))
    right = [*range(1, len(symbols)), -1]
    queue: list[tuple[float, int, int, str]] = []

    def offer(a: int, b: int) -> None:
        merged = symbols[a] + symbols[b]
        if merged in scores:
            heapq.heappush(queue, (-scores[merged], a, b, merged))

    for at in range(len(symbols) - 1):
        offer(at, at + 1)
    while queue:
        _, a, b, merged = heapq.heappop(queue)
        if not symbols[a] or not symbols[b] or symbols[a] + symbols[b] != merged:
            continue  # one of the two was merged elsewhere since
        symbols[a], symbols[b], right[a] = merged, "", right[b]
        if right[b] >= 0:
            left[right[b]] = a
            offer(a, right[b])
        if left[a] >= 0:
            offer(left[a], a)
    return [symbol for symbol in symbols if symbol]
