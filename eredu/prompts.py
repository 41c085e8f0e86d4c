"""What a caller may give as a prompt, told apart by what it is made of, and its ids.

A text is one prompt, a sequence of messages is one chat, and a sequence of whole numbers is one prompt of token ids. A
list of texts, of chats or of lists of ids is a batch. Anything else is refused rather than guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, TypeGuard, cast

from eredu.contract.errors import OptionError

if TYPE_CHECKING:
    from eredu.text.chat_template import Message
    from eredu.text.tokenizer import Tokenizer

    Prompt = str | Sequence[Message] | Sequence[int]
    """One prompt."""
    Prompts = list[str] | tuple[str, ...] | Sequence[Sequence[Message]] | Sequence[Sequence[int]]
    """Several prompts of one kind."""

ROLES = ("system", "developer", "user", "assistant", "tool")
"""Roles that every template may meet; others count where the template names them."""
EXPECTED = (
    'expected a text, a chat ([{"role": "user", "content": "…"}]), a list of token ids, or a list of several of one '
    "of these"
)


class _Kind(StrEnum):
    TEXT = "text"
    CHAT = "message"
    IDS = "token id"
    BATCH = "list"


def split_prompts(given: Prompt | Prompts) -> tuple[bool, list[Prompt]]:
    """Whether a batch was given, and its prompts or the one. Raises `OptionError` for anything in between."""
    kind = None if isinstance(given, str) else _kind_of_items(given)
    if kind is _Kind.TEXT:
        return True, [text for text in given if isinstance(text, str)]
    if kind is not _Kind.BATCH:
        return False, [cast("Prompt", given)]
    prompts = [item for item in given if isinstance(item, Sequence)]
    kinds = {_kind_of_items(item, f"prompt {number} ") for number, item in enumerate(prompts)}
    if kinds & {_Kind.TEXT, _Kind.BATCH}:
        raise OptionError(f"the prompts of the batch are themselves lists of several; {EXPECTED}")
    if len(kinds) > 1:
        raise OptionError("the batch mixes chats and lists of token ids; make each batch of one kind of prompt")
    return True, list(prompts)


def encode_prompt(prompt: Prompt, tokenizer: Tokenizer | None, *, raw: bool = False) -> tuple[int, ...]:
    """Prompt ids of one prompt.

    Args:
        prompt: A text becomes the user's turn of a chat; a chat goes through the checkpoint's chat template; ids stay.
        tokenizer: The target's; None where it was loaded without one, which leaves ids alone.
        raw: Continue the text as it stands, without the chat template.

    Raises `OptionError` for a prompt of no kind or several, an empty one, messages without role or content, and
    `TokenizerError` where the template refuses the chat.
    """
    if isinstance(prompt, str):
        if not prompt.strip():
            raise OptionError("the prompt is empty; give some text")
        if raw:
            return _require(tokenizer).encode(prompt)
        return _encode_chat([{"role": "user", "content": prompt}], _require(tokenizer))
    kind = _kind_of_items(prompt)
    if kind in {_Kind.BATCH, _Kind.TEXT}:
        raise OptionError("several prompts were given where one belongs; add them one by one")
    if raw:
        raise OptionError(f"raw=True continues a plain text, and a list of {kind}s was given; drop one of the two")
    return tuple(prompt) if _is_ids(prompt) else _encode_chat(cast("Sequence[Message]", prompt), _require(tokenizer))


def _require(tokenizer: Tokenizer | None) -> Tokenizer:
    if tokenizer is None:
        raise OptionError("this model was loaded without a tokenizer; give the prompt as a list of token ids")
    return tokenizer


def _encode_chat(messages: Sequence[Message], tokenizer: Tokenizer) -> tuple[int, ...]:
    if tokenizer.chat_template is None:
        raise OptionError(
            "this checkpoint has no chat template; give a text and raw=True, which continues it as it stands"
        )
    for number, message in enumerate(messages):
        _check_message(number, message, tokenizer.chat_template.source)
    return tokenizer.apply_chat(messages)


def _check_message(number: int, message: Message, template: str) -> None:
    role = message.get("role")
    if not isinstance(role, str):
        raise OptionError(f"message {number} has the role {role!r}; expected one of {', '.join(ROLES)}")
    if role not in ROLES and f"'{role}'" not in template and f'"{role}"' not in template:
        raise OptionError(
            f"message {number} has the role {role!r}, which this checkpoint's chat template does not know; expected "
            f"one of {', '.join(ROLES)}"
        )
    content = message.get("content")
    if not isinstance(content, (str, Sequence)) and not message.get("tool_calls"):
        raise OptionError(f"message {number} ({role}) has the content {content!r}; expected a text under 'content'")


def _kind_of_items(given: object, place: str = "the prompt ") -> _Kind:
    """Of what a sequence is made. Raises `OptionError` for an empty one, a mixture, and what is no sequence."""
    if isinstance(given, Mapping):
        raise OptionError(f"{place}is a single message; a chat is a list of messages: put it in a list")
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes, bytearray)):
        hint = "; give its ids as a list (array.tolist())" if hasattr(given, "tolist") else ""
        raise OptionError(f"{place}is of type {type(given).__name__}; {EXPECTED}{hint}")
    kinds: dict[_Kind, int] = {}
    for number, item in enumerate(given):
        kinds.setdefault(_kind_of_item(item, f"item {number} of {place}"), number)
    if not kinds:
        raise OptionError(f"{place}is an empty list; {EXPECTED}")
    if len(kinds) > 1:
        found = ", ".join(f"a {kind} (item {number})" for kind, number in kinds.items())
        raise OptionError(f"{place}mixes {found}; {EXPECTED}")
    return next(iter(kinds))


def _kind_of_item(item: object, place: str) -> _Kind:
    match item:
        case str():
            return _Kind.TEXT
        case bool() | bytes() | bytearray():
            pass
        case int():
            return _Kind.IDS
        case Mapping():
            return _Kind.CHAT
        case Sequence():
            return _Kind.BATCH
    raise OptionError(f"{place}is {item!r}, of type {type(item).__name__}; {EXPECTED}")


def _is_ids(given: Prompt) -> TypeGuard[Sequence[int]]:
    return isinstance(given[0], int)
