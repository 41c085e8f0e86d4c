"""A tokenizer as a value: text to ids, ids to text, and what the ids mean.

Where it came from (a Hugging Face directory, GGUF metadata) is the loaders' business; two tokenizers with one
fingerprint are the same for everything that follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from eredu.contract.errors import TokenizerError
from eredu.text.chat_template import ChatTemplate, Message
from eredu.text.fingerprint import Fingerprint, fingerprint
from eredu.text.pieces import TokenPieces
from eredu.text.streaming import StreamingText, decode
from eredu.text.vocabulary import Vocabulary


class Encoder(Protocol):
    """Turns text into ids. Special tokens written out in the text become their ids."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Ids of the text, with the ids that the checkpoint puts around every text if asked for."""
        ...


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """Everything eredu needs of a tokenizer.

    Attributes:
        pieces: Vocabulary and the bytes of every id.
        encoder: Text to ids.
        eos_ids: Ids that end an output.
        bos_id: Id that begins every text where the checkpoint wants one, else None.
        chat_template: How chats become prompts, None where the checkpoint has none.
    """

    pieces: TokenPieces
    encoder: Encoder
    eos_ids: frozenset[int] = frozenset()
    bos_id: int | None = None
    chat_template: ChatTemplate | None = None

    def __post_init__(self) -> None:
        stray = sorted(i for i in self.eos_ids if self.vocabulary.token(i) is None)
        if stray:
            raise TokenizerError(
                f"the checkpoint names {stray} as end-of-sequence ids, and its tokenizer has no such ids (it has "
                f"{self.vocabulary.size}): config and tokenizer are not of one model"
            )

    @property
    def vocabulary(self) -> Vocabulary:
        """Token strings, special and added ids."""
        return self.pieces.vocabulary

    @property
    def vocabulary_size(self) -> int:
        """One past the highest assigned id; a model may have more logit rows than that."""
        return self.vocabulary.size

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Identity of the tokenizer."""
        return fingerprint(self.vocabulary)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> tuple[int, ...]:
        """Ids of a text. Raises `TokenizerError` for text that is not valid Unicode."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise TokenizerError(
                f"the text holds the lone surrogate {text[error.start]!r} at character {error.start}; give valid "
                "Unicode (was the input decoded with 'surrogateescape'?)"
            ) from None
        return tuple(self.encoder.encode(text, add_special_tokens=add_special_tokens))

    def decode(self, tokens: Iterable[int], *, hide_special: bool = True) -> str:
        """Text of a sequence of ids: the same that `stream` gives for them one by one."""
        return decode(replace(self.pieces, hide_special=hide_special), tokens)

    def stream(self, stop_strings: Sequence[str] = (), *, hide_special: bool = True) -> StreamingText:
        """Visible text of one output, before its first token."""
        return StreamingText.before(replace(self.pieces, hide_special=hide_special), stop_strings)

    def apply_chat(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = True, **variables: Any
    ) -> tuple[int, ...]:
        """Prompt ids of a chat; the template writes every special token itself.

        Raises `TokenizerError` where the checkpoint has no chat template or the template refuses the messages.
        """
        if self.chat_template is None:
            raise TokenizerError(
                "this checkpoint has no chat template, so a chat has no one prompt; give the prompt as plain text"
            )
        text = self.chat_template.render(messages, add_generation_prompt=add_generation_prompt, **variables)
        return self.encode(text, add_special_tokens=False)
