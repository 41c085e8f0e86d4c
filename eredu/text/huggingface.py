"""Tokenizers from Hugging Face directories: tokenizer.json, with what the files beside it add.

tokenizer.json is read by the `tokenizers` library; the class that Transformers would take may build another pipeline
around its vocabulary (`tokenizer_classes`), and the files beside it list further tokens (`added_tokens`): ids and text
are those of Transformers' `AutoTokenizer`, or the directory is refused. generation_config.json, or else config.json,
names further ids that end an output; `template_files` says where the chat template lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models

from eredu.contract.errors import TokenizerError
from eredu.files.json_reading import MAX_BYTES, parse_json, read_bytes, read_json_object
from eredu.text.added_tokens import MAX_ID, Gathered, Listed, add_tokens, gather, require_agreement
from eredu.text.pieces import pieces_of_decoder
from eredu.text.rebuilding import REBUILDINGS, rebuild
from eredu.text.template_files import read_chat_template
from eredu.text.tokenizer import Tokenizer
from eredu.text.tokenizer_classes import tokenizer_class
from eredu.text.vocabulary import Vocabulary

FILE = "tokenizer.json"
CONFIG = "tokenizer_config.json"
SOURCES = ("tokenizer.model", "vocab.json", "merges.txt", "tiktoken.model", "tekken.json", "vocab.txt")
"""Files out of which Transformers builds a tokenizer without tokenizer.json; eredu does not."""
UNFOLLOWED = {
    "fix_mistral_regex": "splits the text by another pattern than tokenizer.json has",
    "split_special_tokens": "splits the special tokens that stand in a text",
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": "takes spaces out of the text",
}
"""Settings of tokenizer_config.json that change ids or text, and that eredu does not follow."""


@dataclass(frozen=True, eq=False)
class LibraryEncoder:
    """Encoder on the `tokenizers` library."""

    tokenizer: tokenizers.Tokenizer = field(repr=False)

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Ids of the text. Raises `TokenizerError` where the tokenizer has no id for a part of it."""
        try:
            return self.tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        except Exception as error:  # the library raises bare Exception
            raise TokenizerError(
                f"the tokenizer has no ids for this text: {error}; the checkpoint is damaged"
            ) from error


def load_directory(directory: Path, model_config: Mapping[str, Any]) -> Tokenizer:
    """Tokenizer of a Hugging Face directory; `model_config` is the content of its config.json, empty without one.

    Raises `TokenizerError` where the directory has none, it cannot be read, its files disagree on an id, or its class
    is one that eredu does not follow.
    """
    path = directory / FILE
    if not path.is_file():
        raise TokenizerError(f"{directory} has no {FILE}; {_instead(directory)}")
    config = _read_object(directory / CONFIG)
    _require_followed(directory, config)
    library, gathered = _assembled(path, config, model_config)
    vocabulary = vocabulary_of(library)
    bos = gathered.names.get("bos_token")
    return Tokenizer(
        pieces=pieces_of_decoder(vocabulary, _decoder(library), _spellings(library, vocabulary)),
        encoder=LibraryEncoder(library),
        eos_ids=_eos_ids(directory, model_config, library, gathered.names.get("eos_token")),
        bos_id=None if bos is None else library.token_to_id(bos),
        chat_template=read_chat_template(directory, config, gathered.names),
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
    special = frozenset(i for i, entry in added.items() if _is_hidden(library, i, otherwise=entry.special))
    return Vocabulary(tuple(tokens), added_ids=frozenset(added), special_ids=special)


def _is_hidden(library: tokenizers.Tokenizer, token_id: int, *, otherwise: bool) -> bool:
    """Whether the library hides a token with the special ones, which does not go by its flag alone."""
    shown = library.decode([token_id], skip_special_tokens=False)
    return library.decode([token_id], skip_special_tokens=True) != shown if shown else otherwise


def _assembled(
    path: Path, config: dict[str, Any], model_config: Mapping[str, Any]
) -> tuple[tokenizers.Tokenizer, Gathered]:
    """The library's tokenizer with all added tokens, and the special ones."""
    data = read_bytes(path, error=TokenizerError)
    if len(data) > MAX_BYTES:
        raise TokenizerError(f"{path} has more than {MAX_BYTES} bytes, which no tokenizer has: it is damaged")
    library = _read_library(path, data)
    name = tokenizer_class(config, model_config, byte_level=b'"ByteLevel"' in data)
    how = REBUILDINGS.get(name)
    directory = path.parent
    special, added = (_read_object(directory / file) for file in ("special_tokens_map.json", "added_tokens.json"))
    listed = Listed(directory, config, special, added)
    published = library.get_added_tokens_decoder()
    padding = library.padding["pad_token"] if library.padding else None
    gathered = gather(listed, published, {} if how is None else how.special_tokens, padding)
    _require_eos(directory, library, gathered, None if _names_eos(listed) else name)
    if how is not None:
        content = parse_json(data, name=str(path), error=TokenizerError)
        library = rebuild(name, content, library, config, gathered.names.get("unk_token"))
    if config.get("clean_up_tokenization_spaces") and not isinstance(library.model, models.BPE):
        raise TokenizerError(
            f"{directory / CONFIG} sets clean_up_tokenization_spaces, which takes spaces out of the text of a "
            "tokenizer that is no BPE; eredu does not do that: take it out"
        )
    library.no_truncation()
    library.no_padding()
    try:
        add_tokens(library, gathered, again="" if how is None else how.adds_again)
    except Exception as error:  # the library raises bare Exception
        raise TokenizerError(f"{directory} lists added tokens that cannot be added: {error}") from error
    require_agreement(library, listed, published)
    return library, gathered


def _names_eos(listed: Listed) -> bool:
    return "eos_token" in {*listed.config, *listed.special}


def _require_eos(directory: Path, library: tokenizers.Tokenizer, gathered: Gathered, by_class: str | None) -> None:
    """Refuse an `eos_token` that no file gives an id: it would be a new one, and no output would end.

    `by_class` is the tokenizer's class where it is its default.
    """
    eos = gathered.names.get("eos_token")
    if eos is None or library.token_to_id(eos) is not None or eos in map(str, gathered.tokens.values()):
        return
    if by_class is not None:
        raise TokenizerError(
            f"{directory} names no eos_token, the one of its tokenizer's class {by_class} is {eos!r}, and its "
            'tokenizer has no such token: name the right one in tokenizer_config.json, or null as its "eos_token"'
        )
    raise TokenizerError(
        f"{directory} names {eos[:80]!r} as its eos_token, and its tokenizer has no such token: config and tokenizer "
        "are not of one model"
    )


def _read_library(path: Path, data: bytes) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_buffer(data)
    except Exception as error:  # the library raises bare Exception for whatever it cannot read
        raise TokenizerError(
            f"{path} is not a tokenizer that the `tokenizers` library reads ({error}); fetch the file again, or write "
            "it again with a current transformers"
        ) from error


def _read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file, empty where there is no file."""
    return read_json_object(path, error=TokenizerError) if path.is_file() else {}


def _instead(directory: Path) -> str:
    """What a directory without tokenizer.json holds, and what to do."""
    found = [name for name in SOURCES if (directory / name).is_file()]
    if not found:
        return "expected one beside the weights: fetch it from where the checkpoint was published"
    return (
        f"it has {' and '.join(found)}, out of which Transformers builds a tokenizer. Let it write the JSON form, and "
        "put that beside the weights: AutoTokenizer.from_pretrained(…).save_pretrained(…)"
    )


def _require_followed(directory: Path, config: dict[str, Any]) -> None:
    """Refuse settings that change ids or text in ways that eredu does not follow."""
    files = config.get("fast_tokenizer_files")
    if isinstance(files, list) and any(file != FILE for file in files):
        raise TokenizerError(
            f"{directory / CONFIG} names other tokenizers for other versions of Transformers (fast_tokenizer_files: "
            f"{', '.join(map(str, files))[:80]}), and eredu reads {FILE}; take the entry out if that is the right one"
        )
    for key, does in UNFOLLOWED.items():
        if config.get(key):
            raise TokenizerError(f"{directory / CONFIG} sets {key}, which {does}; eredu does not do that: take it out")


def _spellings(library: tokenizers.Tokenizer, vocabulary: Vocabulary) -> dict[int, str]:
    """Added tokens as the library decodes them where that is not their text: normalised, as they are matched."""
    spelled = {i: library.id_to_token(i) for i in vocabulary.added_ids}
    return {i: text for i, text in spelled.items() if text is not None and text != vocabulary.token(i)}


def _decoder(library: tokenizers.Tokenizer) -> dict[str, Any] | None:
    decoder = library.decoder
    state: Any = None if decoder is None else parse_json(decoder.__getstate__(), name="the tokenizer's decoder")
    return state if isinstance(state, dict) else None


def _eos_ids(
    directory: Path, model_config: Mapping[str, Any], library: tokenizers.Tokenizer, eos_token: str | None
) -> frozenset[int]:
    generation = _read_object(directory / "generation_config.json").get("eos_token_id")
    named = model_config.get("eos_token_id") if generation is None else generation
    listed = named if isinstance(named, list) else [] if named is None else [named]
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in listed):
        raise TokenizerError(f"{directory}: eos_token_id is {named!r}; expected an id or a list of ids")
    own = None if eos_token is None else library.token_to_id(eos_token)
    return frozenset(listed if own is None else [*listed, own])
