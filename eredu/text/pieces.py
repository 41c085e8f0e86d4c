"""The bytes that each token id contributes to the text.

Text is decoded from bytes, not from strings of tokens, because a character may be spread over several tokens. Two
alphabets are known, and they cover byte-level BPE and SentencePiece; any other decoder is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    """

    vocabulary: Vocabulary
    alphabet: Alphabet
    strip_leading_space: bool = False
    hide_special: bool = True

    def bytes_of(self, token_id: int) -> bytes:
        """Text bytes of one id, empty for a hidden one. Raises `TokenizerError` for an id without a token."""
        token = self.vocabulary.token(token_id)
        if token is None:
            raise TokenizerError(
                f"id {token_id} has no token: the tokenizer assigns ids below {self.vocabulary.size}, and padding "
                "rows of the model must never be sampled"
            )
        if self.hide_special and token_id in self.vocabulary.special_ids:
            return b""
        if token_id in self.vocabulary.added_ids:
            return token.encode()
        return _BYTES_IN[self.alphabet](token)


def _byte_level_bytes(token: str) -> bytes:
    try:
        return bytes(BYTE_OF_CHARACTER[character] for character in token)
    except KeyError:
        return token.encode()  # a trained token outside the alphabet is spelled in plain text, as the library has it


def _sentencepiece_bytes(token: str) -> bytes:
    return BYTE_PIECES.get(token) or token.replace(METASPACE, " ").encode()


_BYTES_IN = {Alphabet.BYTE_LEVEL: _byte_level_bytes, Alphabet.SENTENCEPIECE: _sentencepiece_bytes}


def pieces_of_decoder(vocabulary: Vocabulary, decoder: Mapping[str, Any] | None) -> TokenPieces:
    """Pieces for the `decoder` of a tokenizer.json. Raises `TokenizerError` for a decoder of another kind."""
    steps = [] if decoder is None else decoder["decoders"] if decoder.get("type") == "Sequence" else [decoder]
    if any(step["type"] == "ByteLevel" for step in steps) and len(steps) == 1:
        return TokenPieces(vocabulary, Alphabet.BYTE_LEVEL)
    if steps and all(_is_sentencepiece_step(step) for step in steps):
        strips = any(step["type"] == "Strip" or _metaspace_strips(step) for step in steps)
        return TokenPieces(vocabulary, Alphabet.SENTENCEPIECE, strip_leading_space=strips)
    given = " + ".join(str(step.get("type")) for step in steps) or "none"
    raise TokenizerError(
        f"the tokenizer's decoder is {given}; eredu streams text for the ByteLevel decoder and for SentencePiece "
        "decoders (Replace or Metaspace, ByteFallback, Fuse, Strip of one leading space)"
    )


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


def _metaspace_strips(step: Mapping[str, Any]) -> bool:
    return bool(step["type"] == "Metaspace") and step.get("prepend_scheme", "always") != "never"
