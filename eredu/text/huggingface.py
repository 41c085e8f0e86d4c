"""Tokenizers from Hugging Face directories: tokenizer.json, with what the files beside it add.

tokenizer.json is read by the `tokenizers` library. tokenizer_config.json names the special tokens and holds the chat
template (chat_template.jinja goes before it); generation_config.json, or else config.json, names further ids that end
an output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers

from eredu.contract.errors import TokenizerError
from eredu.files.json_reading import parse_json, read_json_object
from eredu.text.pieces import pieces_of_decoder
from eredu.text.template_files import read_chat_template
from eredu.text.tokenizer import Tokenizer
from eredu.text.vocabulary import Vocabulary

MAX_ID = 2**24
"""Past any vocabulary there is."""
SPECIAL_ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


@dataclass(frozen=True, eq=False)
class LibraryEncoder:
    """Encoder on the `tokenizers` library."""

    tokenizer: tokenizers.Tokenizer = field(repr=False)

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Ids of the text."""
        return self.tokenizer.encode(text, add_special_tokens=add_special_tokens).ids


def load_directory(directory: Path, model_config: Mapping[str, Any]) -> Tokenizer:
    """Tokenizer of a Hugging Face directory; `model_config` is the content of its config.json, empty without one.

    Raises `TokenizerError` where the directory has none or it cannot be read.
    """
    path = directory / "tokenizer.json"
    if not path.is_file():
        raise TokenizerError(
            f"{directory} has no tokenizer.json; expected one beside the weights. Where the checkpoint only has a "
            "tokenizer.model, let transformers write the JSON form: AutoTokenizer.from_pretrained(…).save_pretrained(…)"
        )
    config = _read_object(directory / "tokenizer_config.json")
    library = _read_library(path)
    specials = _special_tokens(config)
    bos = specials.get("bos_token")
    return Tokenizer(
        pieces=pieces_of_decoder(vocabulary_of(library), _decoder(library)),
        encoder=LibraryEncoder(library),
        eos_ids=_eos_ids(directory, model_config, library, specials.get("eos_token")),
        bos_id=None if bos is None else library.token_to_id(bos),
        chat_template=read_chat_template(directory, config, specials),
    )


def vocabulary_of(library: tokenizers.Tokenizer) -> Vocabulary:
    """Every id of a library tokenizer, added tokens included."""
    ids = library.get_vocab(with_added_tokens=True)
    added = library.get_added_tokens_decoder()
    if not ids:
        raise TokenizerError("the tokenizer has an empty vocabulary; expected at least one token")
    highest = max([*ids.values(), *added])
    if highest > MAX_ID:
        raise TokenizerError(
            f"the tokenizer assigns the id {highest}; expected ids up to {MAX_ID}: the file is damaged"
        )
    tokens: list[str | None] = [None] * (1 + highest)
    for token, token_id in ids.items():
        tokens[token_id] = token
    for token_id, entry in added.items():
        tokens[token_id] = entry.content
    special = frozenset(token_id for token_id, entry in added.items() if entry.special)
    return Vocabulary(tuple(tokens), added_ids=frozenset(added), special_ids=special)


def _read_library(path: Path) -> tokenizers.Tokenizer:
    try:
        library = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for whatever it cannot read
        raise TokenizerError(
            f"{path} is not a tokenizer that the `tokenizers` library reads ({error}); fetch the file again, or write "
            "it again with a current transformers"
        ) from error
    library.no_truncation()
    library.no_padding()
    return library


def _read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file, empty where there is no file."""
    return read_json_object(path, error=TokenizerError) if path.is_file() else {}


def _decoder(library: tokenizers.Tokenizer) -> dict[str, Any] | None:
    decoder = library.decoder
    state: Any = None if decoder is None else parse_json(decoder.__getstate__(), name="the tokenizer's decoder")
    return state if isinstance(state, dict) else None


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    """Strings of the special roles; a role is a string or an object with `content`."""
    values = {role: config.get(role) for role in SPECIAL_ROLES}
    contents = {role: value.get("content") if isinstance(value, dict) else value for role, value in values.items()}
    return {role: content for role, content in contents.items() if isinstance(content, str)}


def _eos_ids(
    directory: Path, model_config: Mapping[str, Any], library: tokenizers.Tokenizer, eos_token: str | None
) -> frozenset[int]:
    generation = _read_object(directory / "generation_config.json").get("eos_token_id")
    named = model_config.get("eos_token_id") if generation is None else generation
    listed = named if isinstance(named, list) else [] if named is None else [named]
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in listed):
        raise TokenizerError(f"{directory}: eos_token_id is {named!r}; expected an id or a list of ids")
    own = None if eos_token is None else library.token_to_id(eos_token)
    if eos_token is not None and own is None:
        raise TokenizerError(
            f"{directory} names {eos_token[:80]!r} as its eos_token, and its tokenizer has no such token: config and "
            "tokenizer are not of one model"
        )
    return frozenset(listed if own is None else [*listed, own])
