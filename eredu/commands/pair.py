"""A target with its drafter, loaded by the names that the command line was given, and its prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eredu.checkpoints.names import resolve_checkpoint
from eredu.checkpoints.opening import load_tokenizer
from eredu.contract.errors import OptionError
from eredu.loaded import LoadedModel
from eredu.text.chat_template import Message
from eredu.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from eredu.engine.mlx_backend import Assistant, MlxBackend
    from eredu.mlx.adapter import Split


@dataclass(frozen=True)
class Pair:
    """What one command decodes with.

    Attributes:
        model: The target, with its prediction heads where they are to propose.
        assistant: The draft model, or None.
        tokenizer: The target's tokenizer.
    """

    model: LoadedModel[MlxBackend]
    assistant: Assistant | None
    tokenizer: Tokenizer

    @classmethod
    def load(
        cls,
        model: str,
        assistant: str | None,
        *,
        dtype: str,
        placement: str,
        head: str | None = None,
        mtp: bool = True,
        split: Split | None = None,
    ) -> Pair:
        """Load by names or paths; without `mtp` neither assistant nor heads; the target split over ranks if wanted.

        Raises `CheckpointError`, `TokenizerError` or `OptionError` with what to do.
        """
        from eredu.engine.load import load_assistant, load_target  # noqa: PLC0415 (MLX, only for this)

        if assistant is not None and head is not None:
            raise OptionError("--assistant and --head are two drafters for one target; give one of them")
        if not mtp:
            assistant = head = None
        with_heads = mtp and assistant is None
        tokenizer = load_tokenizer(resolve_checkpoint(model))
        draft_tokenizer = None if assistant is None else load_tokenizer(resolve_checkpoint(assistant))
        target = load_target(
            model,
            tokenizer=tokenizer,
            dtype=dtype,
            placement=placement,
            head=head,
            with_heads=with_heads,
            split=split,
        )
        if assistant is None or draft_tokenizer is None:
            return cls(target, None, tokenizer)
        return cls(target, load_assistant(assistant, tokenizer=draft_tokenizer, dtype=dtype), tokenizer)

    @property
    def speculates(self) -> bool:
        """Whether decoding goes through a drafter: an assistant, or heads that the target has itself."""
        return self.assistant is not None or self.model.mtp_capability().is_ready

    def require_drafter(self) -> None:
        """Raise `OptionError` where neither an assistant was named nor the target has heads."""
        if not self.speculates:
            raise OptionError(
                "this needs a drafter, and the target has no prediction heads of its own; name a draft model with "
                "--assistant, or a directory of heads with --head"
            )


def encode_prompt(tokenizer: Tokenizer, text: str, *, system: str | None = None, raw: bool = False) -> tuple[int, ...]:
    """Prompt ids of a user's text: as one chat turn, or as it stands if `raw`.

    Raises `OptionError` for an empty text, a system text with `raw`, and a chat without a chat template.
    """
    if not text.strip():
        raise OptionError("the prompt is empty; give some text, or '-' to read it from standard input")
    if raw:
        if system is not None:
            raise OptionError("a system text needs the chat template, which --raw leaves out; drop one of the two")
        return tokenizer.encode(text)
    if tokenizer.chat_template is None:
        raise OptionError("this checkpoint has no chat template; give --raw to continue the prompt as plain text")
    messages: list[Message] = [] if system is None else [{"role": "system", "content": system}]
    return tokenizer.apply_chat([*messages, {"role": "user", "content": text}])
