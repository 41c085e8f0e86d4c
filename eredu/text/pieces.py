"""The bytes that each token id contributes to the text.

Text is decoded from bytes, not from strings of tokens, because a character may be spread over several tokens. Two
alphabets are known, and they cover byte-level BPE and SentencePiece; any other decoder is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from eredu.contract.errors import TokenizerError
from eredu.text.vocabulary import Vocabulary

METASPACE = "▁"


class Alphabet(Enum):
    """How token strings spell bytes."""

    BYTE_LEVEL = "byte-level"
    """Each character stands for one byte (GPT-2's table)."""
    SENTENCEPIECE = "sentencepiece"
    """Plain text with U+2581 for a space; `<0xNN>` spells a single byte."""
    PLAIN = "plain"
    """Plain text."""
    METASPACE = "metaspace"
    """Plain text with U+2581 for a space, and no bytes; of the first token, all such spaces are dropped."""


def _byte_level_table() -> dict[str, int]:
    """GPT-2's map from characters to bytes: printable Latin-1 stands for itself, the rest from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(rest)}


BYTE_OF_CHARACTER: Mapping[str, int] = _byte_level_table()
BYTE_PIECES: Mapping[str, bytes] = {f"<0x{byte:02X}>": bytes([byte]) for byte in range(256)}


@dataclass(frozen=True)
class TokenPieces:
    """Bytes of every id of one vocabulary.

    Attributes:
        vocabulary: The ids.
        alphabet: How their strings spell bytes.
        strip_leading_space: Whether the space that SentencePiece puts before a text is dropped again at its start.
        hide_special: Whether special ids contribute no text.
        spellings: Added tokens as they are decoded, where that is not their string.
    """

    vocabulary: Vocabulary
    alphabet: Alphabet
    strip_leading_space: bool = False
    hide_special: bool = True
    spellings: Mapping[int, str] = field(default_factory=dict, repr=False)

    def hides(self, token_id: int) -> bool:
        """Whether an id contributes no text because it is special."""
        return self.hide_special and token_id in self.vocabulary.special_ids

    def ends_start(self, token_id: int) -> bool:
        """Whether what comes behind an id is no longer the start: any that is shown, or any with text."""
        if self.alphabet is Alphabet.METASPACE:
            return not self.hides(token_id)
        return bool(self.bytes_of(token_id))

    def bytes_of(self, token_id: int, *, at_start: bool = False) -> bytes:
        """Text bytes of one id, empty for a hidden one. Raises `TokenizerError` for an id without a token.

        Args:
            token_id: The id.
            at_start: Whether no text came before it, so that the space that SentencePiece put there is dropped.
        """
        token = self.vocabulary.token(token_id)
        if token is None:
            raise TokenizerError(
                f"id {token_id} has no token: the tokenizer assigns ids below {self.vocabulary.size}, and padding "
                "rows of the model must never be sampled"
            )
        if self.hides(token_id):
            return b""
        token = self.spellings.get(token_id, token)
        if at_start and self.alphabet is Alphabet.METASPACE and self.strip_leading_space:
            token = token.replace(METASPACE, "")
        spelled = _BYTES_IN[self.alphabet](token)
        return spelled.removeprefix(b" ") if at_start and self.strip_leading_space else spelled


def _byte_level_bytes(token: str) -> bytes:
    try:
        return bytes(BYTE_OF_CHARACTER[character] for character in token)
    except KeyError:
        return token.encode()  # a trained token outside the alphabet is spelled in plain text, as the library has it


def _sentencepiece_bytes(token: str) -> bytes:
    byte = _BYTE.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else _metaspace_bytes(token)


def _metaspace_bytes(token: str) -> bytes:
    return token.replace(METASPACE, " ").encode()


_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2}|\+[0-9A-Fa-f])>")
"""What the library takes for a byte: two hexadecimal digits, or a sign and one."""
_BYTES_IN: Mapping[Alphabet, Callable[[str], bytes]] = {
    Alphabet.PLAIN: str.encode,
    Alphabet.BYTE_LEVEL: _byte_level_bytes,
    Alphabet.SENTENCEPIECE: _sentencepiece_bytes,
    Alphabet.METASPACE: _metaspace_bytes,
}


def pieces_of_decoder(
    vocabulary: Vocabulary, decoder: Mapping[str, Any] | None, spellings: Mapping[int, str] | None = None
) -> TokenPieces:
    """Pieces for the `decoder` of a tokenizer.json. Raises `TokenizerError` for a decoder of another kind.

    Args:
        vocabulary: The ids.
        decoder: The decoder, None where there is none.
        spellings: Added tokens as they are decoded, where that is not their string.
    """
    steps = [] if decoder is None else decoder["decoders"] if decoder.get("type") == "Sequence" else [decoder]
    kinds, spelled = [step["type"] for step in steps], spellings or {}
    if kinds == ["ByteLevel"]:
        return TokenPieces(vocabulary, Alphabet.BYTE_LEVEL, spellings=spelled)
    if steps and all(_is_sentencepiece_step(step) for step in steps):
        if kinds == ["Metaspace"]:
            strips = steps[0].get("prepend_scheme", "always") != "never"
            return TokenPieces(vocabulary, Alphabet.METASPACE, strip_leading_space=strips, spellings=spelled)
        if kinds == ["Fuse"]:
            return TokenPieces(vocabulary, Alphabet.PLAIN, spellings=spelled)
        if kinds in (["Replace"], ["Replace", "Fuse"]):
            return TokenPieces(vocabulary, Alphabet.METASPACE, spellings=spelled)
        if kinds in _SENTENCEPIECE:
            strips = "Strip" in kinds
            return TokenPieces(vocabulary, Alphabet.SENTENCEPIECE, strip_leading_space=strips, spellings=spelled)
    given = " + ".join(map(str, kinds)) or "none"
    raise TokenizerError(
        f"the tokenizer's decoder is {given}; eredu streams text for the ByteLevel decoder and for SentencePiece "
        "decoders (Metaspace, or Replace, ByteFallback and Fuse, with or without a Strip of one leading space)"
    )


_SENTENCEPIECE = (["Replace", "ByteFallback", "Fuse"], ["Replace", "ByteFallback", "Fuse", "Strip"])


def _is_sentencepiece_step(step: Mapping[str, Any]) -> bool:
    match step["type"]:
        case "ByteFallback" | "Fuse":
            return True
        case "Replace":
            return bool(step.get("pattern") == {"String": METASPACE} and step.get("content") == " ")
        case "Strip":
            return bool(step.get("content") == " " and step.get("start") == 1 and step.get("stop") == 0)
        case "Metaspace":
            return bool(step.get("replacement") == METASPACE)
        case _:
            return False
