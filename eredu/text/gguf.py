"""Tokenizers from GGUF metadata (`tokenizer.ggml.*`): byte-level BPE and SentencePiece BPE.

The metadata arrive as a mapping of plain Python values; reading the file is the checkpoint's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, processors

from eredu.contract.errors import TokenizerError
from eredu.text.chat_template import ChatTemplate
from eredu.text.huggingface import LibraryEncoder
from eredu.text.pieces import Alphabet, TokenPieces
from eredu.text.pretokenizers import PreTokenizer, pre_tokenizer
from eredu.text.sentencepiece import SentencePieceEncoder
from eredu.text.template_files import DEFAULT, chosen_template, named_templates
from eredu.text.tokenizer import Encoder, Tokenizer
from eredu.text.vocabulary import Vocabulary

PREFIX = "tokenizer.ggml."
TEMPLATE = "tokenizer.chat_template"
EOS_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")


class TokenType(IntEnum):
    """What `tokenizer.ggml.token_type` says of an id."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def load_metadata(metadata: Mapping[str, Any]) -> Tokenizer:
    """Tokenizer that a GGUF describes.

    Raises `TokenizerError` where the metadata hold none, contradict themselves, or name a model or pre-tokenizer
    whose ids eredu cannot reproduce exactly.
    """
    # What is not supported is said first, so that a file that eredu only cannot read is not called damaged.
    splitting = _splitting(metadata)
    vocabulary = read_vocabulary(metadata)
    if splitting is None:
        pieces, encoder = _sentencepiece(metadata, vocabulary)
    else:
        encoder = _byte_level_encoder(metadata, vocabulary, splitting)
        pieces = TokenPieces(vocabulary, Alphabet.BYTE_LEVEL)
    return Tokenizer(
        pieces=pieces,
        encoder=encoder,
        eos_ids=frozenset(i for i in (_id_of(metadata, key, vocabulary) for key in EOS_KEYS) if i is not None),
        bos_id=_id_of(metadata, "bos_token_id", vocabulary),
        chat_template=_chat_template(metadata, vocabulary),
    )


def read_vocabulary(metadata: Mapping[str, Any]) -> Vocabulary:
    """Token strings and their types. Rows that the converter invented to fill the table stand for no token."""
    tokens = metadata.get(f"{PREFIX}tokens")
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) for token in tokens):
        raise TokenizerError(f"the GGUF has no list of strings {PREFIX}tokens; expected the token of every id")
    types = metadata.get(f"{PREFIX}token_type", [TokenType.NORMAL] * len(tokens))
    if not isinstance(types, list) or len(types) != len(tokens) or not all(isinstance(kind, int) for kind in types):
        raise TokenizerError(
            f"the GGUF gives {len(tokens)} tokens and {len(types) if isinstance(types, list) else 'no'} token types; "
            "expected one whole number for each token: the file is damaged"
        )
    filler = {(f"[PAD{i}]", i) for i, kind in enumerate(types) if kind == TokenType.UNUSED}
    kept = [None if (token, i) in filler else token for i, token in enumerate(tokens)]
    special = frozenset(i for i, kind in enumerate(types) if kind in {TokenType.CONTROL, TokenType.UNKNOWN})
    added = special | {i for i, kind in enumerate(types) if kind == TokenType.USER_DEFINED}
    return Vocabulary(tuple(kept), added_ids=added, special_ids=special)


def _splitting(metadata: Mapping[str, Any]) -> PreTokenizer | None:
    """How byte-level BPE splits its text; None for SentencePiece, which does not."""
    model = metadata.get(f"{PREFIX}model")
    if model is None:
        raise TokenizerError("the GGUF has no tokenizer.ggml.model; load the model from its Hugging Face directory")
    if model not in ("gpt2", "llama"):
        raise TokenizerError(
            f"the GGUF's tokenizer is of the kind {str(model)[:80]!r} (tokenizer.ggml.model), which eredu does not "
            "support; it reads 'gpt2' (byte-level BPE) and 'llama' (SentencePiece BPE). Load the model from its "
            "Hugging Face directory instead"
        )
    return pre_tokenizer(metadata.get(f"{PREFIX}pre")) if model == "gpt2" else None


def _byte_level_encoder(metadata: Mapping[str, Any], vocabulary: Vocabulary, splitting: PreTokenizer) -> Encoder:
    merges = metadata.get(f"{PREFIX}merges")
    if not isinstance(merges, list) or not all(isinstance(merge, str) for merge in merges):
        raise TokenizerError(
            f"the GGUF has no list of strings {PREFIX}merges; byte-level BPE cannot be applied without it"
        )
    pairs = [tuple(merge.split(" ", 1)) for merge in merges]
    if not all(len(pair) == 2 for pair in pairs):
        raise TokenizerError(
            f"the GGUF's {PREFIX}merges hold an entry that is not a pair of tokens: the file is damaged"
        )
    library = _library(splitting, vocabulary, pairs)
    _surround(library, metadata, vocabulary, adds_bos=splitting.adds_bos)
    return LibraryEncoder(library)


def _library(splitting: PreTokenizer, vocabulary: Vocabulary, pairs: list[Any]) -> tokenizers.Tokenizer:
    try:
        bpe = models.BPE(vocab=vocabulary.ids, merges=pairs, ignore_merges=splitting.ignore_merges)
    except Exception as error:  # the library raises bare Exception
        raise TokenizerError(
            f"the GGUF's tokens and merges do not fit each other ({error}): the file is damaged"
        ) from error
    library = tokenizers.Tokenizer(bpe)
    if splitting.normalizes:
        library.normalizer = normalizers.NFC()
    library.pre_tokenizer = splitting.build()
    library.decoder = decoders.ByteLevel()
    added = ((i, vocabulary.token(i)) for i in sorted(vocabulary.added_ids))
    library.add_tokens(
        [AddedToken(t, normalized=False, special=i in vocabulary.special_ids) for i, t in added if t is not None]
    )
    return library


def _surround(
    library: tokenizers.Tokenizer, metadata: Mapping[str, Any], vocabulary: Vocabulary, *, adds_bos: bool
) -> None:
    """Let the library put the begin and end ids around a text, where the file or the family asks for them."""
    bos, eos = _ends(metadata, vocabulary, adds_bos=adds_bos)
    named = {str(vocabulary.token(i)): i for i in (bos, eos) if i is not None}
    if named:
        around = [[str(vocabulary.token(i))] if i is not None else [] for i in (bos, eos)]
        library.post_processor = processors.TemplateProcessing(
            single=[*around[0], "$A", *around[1]], special_tokens=list(named.items())
        )


def _ends(metadata: Mapping[str, Any], vocabulary: Vocabulary, *, adds_bos: bool) -> tuple[int | None, int | None]:
    """Ids before and behind every text, None where there is none."""
    bos = _id_of(metadata, "bos_token_id", vocabulary) if metadata.get(f"{PREFIX}add_bos_token", adds_bos) else None
    eos = _id_of(metadata, "eos_token_id", vocabulary) if metadata.get(f"{PREFIX}add_eos_token", False) else None
    return bos, eos


def _sentencepiece(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> tuple[TokenPieces, Encoder]:
    """Pieces and encoder of the `llama` model, which takes the text as it is but for spaces."""
    if metadata.get(f"{PREFIX}precompiled_charsmap") or metadata.get(f"{PREFIX}remove_extra_whitespaces"):
        raise TokenizerError(
            "the GGUF's SentencePiece tokenizer normalises its text (a character map, or extra spaces removed), which "
            "eredu does not reproduce; load the model's Hugging Face tokenizer.json instead"
        )
    scores = metadata.get(f"{PREFIX}scores")
    if not isinstance(scores, list) or not all(isinstance(score, float) for score in scores):
        raise TokenizerError(f"the GGUF has no list of numbers {PREFIX}scores; SentencePiece cannot merge without it")
    prefix = bool(metadata.get(f"{PREFIX}add_space_prefix", True))
    before, after = (() if i is None else (i,) for i in _ends(metadata, vocabulary, adds_bos=True))
    pieces = TokenPieces(vocabulary, Alphabet.SENTENCEPIECE, strip_leading_space=prefix)
    return pieces, SentencePieceEncoder(vocabulary, scores, prefix, before, after)


def _id_of(metadata: Mapping[str, Any], key: str, vocabulary: Vocabulary) -> int | None:
    value = metadata.get(f"{PREFIX}{key}")
    if value is None:
        return None
    if not isinstance(value, int) or vocabulary.token(value) is None:
        raise TokenizerError(
            f"the GGUF's {PREFIX}{key} is {value!r}; expected one of its {vocabulary.size} ids: the file is damaged"
        )
    return value


def _chat_template(metadata: Mapping[str, Any], vocabulary: Vocabulary) -> ChatTemplate | None:
    """`tokenizer.chat_template`, and `tokenizer.chat_template.NAME` of further ones."""
    given = {key.removeprefix(TEMPLATE).removeprefix(".") or DEFAULT: metadata[key] for key in metadata if _names(key)}
    roles = {"bos_token": "bos_token_id", "eos_token": "eos_token_id", "pad_token": "padding_token_id"}
    ids = {role: _id_of(metadata, key, vocabulary) for role, key in roles.items()}
    special = {role: str(vocabulary.token(i)) for role, i in ids.items() if i is not None}
    return chosen_template(named_templates(given, f"the GGUF's {TEMPLATE}"), special)


def _names(key: str) -> bool:
    return key == TEMPLATE or key.startswith(f"{TEMPLATE}.")
