"""A tokenizer whose tokens are single characters: id i of a crafted checkpoint is the i-th letter of `ALPHABET`."""

from __future__ import annotations

import string
from typing import Any

ALPHABET = string.ascii_lowercase + string.ascii_uppercase + string.digits + "+/"
"""64 characters, one for each id."""

_CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def text_of(ids: tuple[int, ...]) -> str:
    """The text of some ids: one character each."""
    return "".join(ALPHABET[token] for token in ids)


def tokenizer_json(vocabulary: int, eos: int | None) -> dict[str, Any]:
    """The content of tokenizer.json: a word-level model over single characters.

    Characters outside of the vocabulary are dropped before they become tokens, because some loaders probe a tokenizer
    with text of their own and the law knows no unknown token. EOS, where there is one, is special: decoding for display
    may hide it.
    """
    special = [] if eos is None else [_special_token(eos)]
    foreign = f"[^{ALPHABET[:vocabulary]}]"
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": {"type": "Replace", "pattern": {"Regex": foreign}, "content": ""},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False},
        "post_processor": None,
        "decoder": {"type": "Fuse"},
        "model": {
            "type": "WordLevel",
            "vocab": {ALPHABET[token]: token for token in range(vocabulary)},
            "unk_token": "<unknown>",
        },
    }


def tokenizer_config(context_limit: int, eos: int | None) -> dict[str, Any]:
    """The content of tokenizer_config.json. The chat template joins the messages and adds nothing.

    Roles that no id has are null: without a word, some of Transformers' classes would add a token for each.
    """
    config: dict[str, Any] = {
        **dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), None),
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context_limit,
        "clean_up_tokenization_spaces": False,
        "chat_template": _CHAT_TEMPLATE,
    }
    if eos is not None:
        config["eos_token"] = ALPHABET[eos]
    return config


def _special_token(token: int) -> dict[str, Any]:
    return {
        "id": token,
        "content": ALPHABET[token],
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
