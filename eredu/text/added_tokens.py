"""Tokens that are added beside the trained vocabulary, out of all the files that may list them.

Which place wins is as in Transformers 5 (`PreTrainedTokenizerBase._from_pretrained`, `TokenizersBackend.__init__`):

1. the tokens of tokenizer.json, unless the tokenizer's class rebuilds it;
2. `added_tokens_decoder` of tokenizer_config.json; special_tokens_map.json and added_tokens.json count no more then;
3. without it: special_tokens_map.json, whose roles go before those of tokenizer_config.json; added_tokens.json; and
   again the tokens of tokenizer.json, which go before both;
4. tokens that only have a role (`bos_token` …, any other key that ends in `_token`, `additional_special_tokens` or
   `extra_special_tokens`) are added last, behind all other ids.

Flags (`lstrip`, `rstrip`, `single_word`, `normalized`, `special`) come from the place that wins. A place that gives a
token another id than the one it ends up with is refused, whichever wins: one of them is of another model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

import tokenizers
from tokenizers import AddedToken

from eredu.contract.errors import TokenizerError

ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
LISTS = ("extra_special_tokens", "additional_special_tokens")
"""Keys of special tokens without a role; the second is the older one."""
DECODER = "added_tokens_decoder"
MAX_ID = 2**24
"""Past any vocabulary there is."""
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
Token = str | AddedToken


@dataclass(frozen=True)
class Listed:
    """What the files beside tokenizer.json list.

    Attributes:
        directory: Where they lie, for messages.
        config: Content of tokenizer_config.json.
        special: Content of special_tokens_map.json.
        added: Content of added_tokens.json: ids by token.
    """

    directory: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    special: Mapping[str, Any] = field(default_factory=dict)
    added: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place in (self.config, self.special):
            for key in LISTS:
                if not isinstance(place.get(key), list | dict | None):
                    raise TokenizerError(
                        f"{self.directory} gives {key} as {str(place[key])[:80]!r}; expected a list of tokens"
                    )
        for token, token_id in self.added.items():
            if (
                not is_text(token)
                or not isinstance(token_id, int)
                or isinstance(token_id, bool)
                or not 0 <= token_id < MAX_ID
            ):
                raise TokenizerError(
                    f"{self.directory / 'added_tokens.json'} gives the token {token[:80]!r} the id {token_id!r}; "
                    f"expected a whole number below {MAX_ID}"
                )

    def stated(self) -> Iterator[tuple[str, str, int]]:
        """Place, token and id of everything that is listed with an id. Raises `TokenizerError` for what is no token."""
        for token_id, token in self.decoder().items():
            yield f"tokenizer_config.json ({DECODER})", str(token), token_id
        yield from (("added_tokens.json", token, token_id) for token, token_id in self.added.items())

    def decoder(self) -> dict[int, AddedToken]:
        """`added_tokens_decoder`, by id."""
        entries = self.config.get(DECODER) or {}
        if not isinstance(entries, Mapping) or not all(_is_id(key) for key in entries):
            raise TokenizerError(
                f"{self.directory / 'tokenizer_config.json'} gives {DECODER} as {str(entries)[:80]!r}; expected tokens "
                "by id"
            )
        return {int(key): self.token(entry) for key, entry in entries.items()}

    def token(self, entry: Any, *, special: bool | None = None) -> AddedToken:
        """A token out of an object with `content` and flags. Raises `TokenizerError` for another thing."""
        content = entry.get("content") if isinstance(entry, Mapping) else entry
        flags = {name: entry[name] for name in FLAGS if name in entry} if isinstance(entry, Mapping) else {}
        if is_text(content) and all(isinstance(flag, bool) for flag in flags.values()):
            return AddedToken(content, **{**flags, **({} if special is None else {"special": special})})
        raise TokenizerError(
            f"{self.directory} lists the added token {str(entry)[:80]!r}; expected a text, or an object with a text "
            "'content' and flags that are true or false"
        )


@dataclass(frozen=True)
class Gathered:
    """Added tokens and special ones, where everything was read.

    Attributes:
        tokens: Added tokens by the id that their place gives them.
        roles: Special tokens by role, the seven of `ROLES` first.
        others: Special tokens without a role.
    """

    tokens: Mapping[int, AddedToken]
    roles: Mapping[str, Token]
    others: tuple[Token, ...]

    @property
    def names(self) -> dict[str, str]:
        """Special tokens by role, as text."""
        return {role: str(token) for role, token in self.roles.items()}


def gather(
    listed: Listed, published: Mapping[int, AddedToken], defaults: Mapping[str, str | None], padding: str | None
) -> Gathered:
    """Everything that is to be added, by the places' precedence.

    Args:
        listed: The files beside tokenizer.json.
        published: Added tokens of tokenizer.json by id.
        defaults: Special tokens by role of the tokenizer's class; those in the files go before them.
        padding: The token with which tokenizer.json pads, if it does.
    """
    values = dict(listed.config)
    if LISTS[1] in values and not values.get(LISTS[0]):
        values[LISTS[0]] = values.pop(LISTS[1])
    named = {key: values.pop(key) for key in list(values) if _is_other_role(key) and isinstance(values[key], str)}
    if isinstance(values.get(LISTS[0]), dict):
        named |= values.pop(LISTS[0])
    tokens = listed.decoder()
    if DECODER not in listed.config:
        named |= _merge_special(listed, values)
        known = {str(values[role]) for role in ROLES if values.get(role)} | {str(t) for t in values.get(LISTS[0]) or ()}
        for text, token_id in listed.added.items():
            special = text in known
            tokens[token_id] = AddedToken(text, normalized=not special, special=special)
        tokens |= published
    by_text = {str(token): token for token in tokens.values()}
    stated = {role: _read(listed, values[role]) for role in ROLES if values.get(role) is not None}
    stated = {role: by_text.get(str(token), token) for role, token in stated.items()}
    open_roles = {**defaults, **({} if padding is None or "pad_token" in defaults else {"pad_token": padding})}
    stated |= {role: token for role, token in open_roles.items() if role not in values and token is not None}
    more = {key: value for key, value in values.items() if _is_other_role(key) and _is_token(value)} | named
    rest = values.get(LISTS[0], values.get(LISTS[1])) or ()
    if not isinstance(rest, list | tuple):
        raise TokenizerError(f"{listed.directory} gives its special tokens as {str(rest)[:80]!r}; expected a list")
    return Gathered(
        tokens,
        {role: stated[role] for role in ROLES if role in stated} | {key: _read(listed, more[key]) for key in more},
        tuple(_read(listed, token) for token in rest),
    )


def is_text(value: object) -> TypeGuard[str]:
    """Whether a value is a text that UTF-8 can spell: half a surrogate pair is none."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _is_token(value: Any) -> bool:
    return isinstance(value, str | AddedToken) or (isinstance(value, Mapping) and "__type" in value)


def _read(listed: Listed, value: Any) -> Token:
    """A special token in any of its forms; objects that do not say that they are a token are special."""
    if isinstance(value, AddedToken) or is_text(value):
        return value
    return listed.token(value, special=None if _is_token(value) else True)


def _merge_special(listed: Listed, values: dict[str, Any]) -> dict[str, Any]:
    """Put special_tokens_map.json over tokenizer_config.json; returns special tokens that it names by roles."""
    for key, value in listed.special.items():
        merged = value
        if isinstance(value, dict) and key != LISTS[0]:
            merged = listed.token(value, special=True)
        elif isinstance(value, list) and key == LISTS[0]:
            merged = list(values.get(LISTS[0]) or ())
            fresh = [token if is_text(token) else listed.token(token, special=True) for token in value]
            merged += [token for token in fresh if token not in merged]
        values[key] = merged
    return values.pop(LISTS[0]) if isinstance(values.get(LISTS[0]), dict) else {}


def _is_other_role(key: str) -> bool:
    return key.endswith("_token") and key not in ROLES


def _is_id(key: object) -> bool:
    return isinstance(key, str) and key.isascii() and key.isdigit() and int(key[:9]) < MAX_ID and len(key) < 9


def add_tokens(library: tokenizers.Tokenizer, gathered: Gathered, *, again: str = "") -> None:
    """Add them to the library's tokenizer, in the order in which Transformers does.

    Args:
        library: What they are added to.
        gathered: What is added.
        again: Whether special tokens are added once more at the end: "added", "special" ones, or neither.
    """
    there = library.get_added_tokens_decoder()
    fresh: list[Token] = [token for _, token in sorted(gathered.tokens.items())]  # those that are there again: flags
    texts = {token.content for token in there.values()} | {str(token) for token in fresh}
    for token in (*gathered.roles.values(), *gathered.others):
        if str(token) not in texts and token not in fresh:  # a text is none of the tokens with flags: both are added
            fresh.append(token)
    roles = set(gathered.names.values())
    library.add_tokens([_as_added(token, special=str(token) in roles) for token in fresh])
    every = [*gathered.roles.values(), *gathered.others]
    if again == "added":
        library.add_tokens([AddedToken(text, special=True) for text in dict.fromkeys(map(str, every))])
    elif again == "special":
        library.add_special_tokens([_as_added(token, special=True) for token in every])


def _as_added(token: Token, *, special: bool) -> AddedToken:
    if isinstance(token, str):
        return AddedToken(token, special=True)
    if special and not token.special:
        token.special = True
    return token


def require_agreement(library: tokenizers.Tokenizer, listed: Listed, published: Mapping[int, AddedToken]) -> None:
    """Raise `TokenizerError` where a place gives a token another id than it has."""
    known = listed.decoder() if DECODER in listed.config else None
    stated = [("tokenizer.json", str(token), token_id) for token_id, token in published.items()]
    for place, text, token_id in (*stated, *listed.stated()):
        found = library.token_to_id(text)
        if found == token_id or (found is None and place == "added_tokens.json" and known is not None):
            continue  # the latter counts no more, and Transformers does not know its token either
        given = "no id" if found is None else f"the id {found}"
        raise TokenizerError(
            f"{listed.directory}: {place} gives the token {text[:80]!r} the id {token_id}, and by its other files it "
            f"has {given}: they are not of one model. Fetch all of the tokenizer's files again, from one place"
        )
