"""A target with its drafter, loaded by the names that the command line was given, and its prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eredu.checkpoints.opening import open_named
from eredu.contract.errors import OptionError
from eredu.model import Model
from eredu.text.chat_template import Message
from eredu.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from eredu.mlx.adapter import Split


def load_pair(
    model: str,
    assistant: str | None,
    *,
    dtype: str,
    placement: str,
    head: str | None = None,
    mtp: bool = True,
    split: Split | None = None,
) -> Model:
    """Load by names or paths; without `mtp` neither assistant nor heads; the target split over ranks if wanted.

    Both tokenizers are read before any weight. Raises `CheckpointError`, `TokenizerError` or `OptionError` with what to
    do.
    """
    from eredu.engine.load import load_assistant, load_target  # noqa: PLC0415 (MLX, only for this)

    if assistant is not None and head is not None:
        raise OptionError("--assistant and --head are two drafters for one target; give one of them")
    if not mtp:
        assistant = head = None
    with_heads, tokenizer = mtp and assistant is None, open_named(model).tokenizer
    drafting = None if assistant is None else open_named(assistant).tokenizer
    target = load_target(
        model, tokenizer=tokenizer, dtype=dtype, placement=placement, head=head, with_heads=with_heads, split=split
    )
    if assistant is None or drafting is None:
        return Model(target)
    return Model(target, load_assistant(assistant, tokenizer=drafting, dtype=dtype))


def speculates(model: Model) -> bool:
    """Whether decoding goes through a drafter: an assistant, or heads that the target has itself."""
    return model.assistant is not None or model.mtp_capability.is_ready


def why_plain(model: Model) -> str | None:
    """Why heads that the target is published with, or claims, are not used; None where nothing was to be expected."""
    target = model.loaded.backend.target
    if speculates(model) or (target.unused is None and target.heads is None):
        return None
    if target.unused is None:
        return model.speculation.reason.removeprefix("plain decoding: ")  # they are there, and caches forbid them
    return target.unused.reason if target.unused.expected else None


def require_drafter(model: Model) -> None:
    """Raise `OptionError` where neither an assistant was named nor the target has heads that can be used."""
    if not speculates(model):
        unused = model.loaded.backend.target.unused
        reason = model.speculation.reason if unused is None else unused.reason
        raise OptionError(
            f"this needs a drafter, and there is none: {reason}. Name a draft model with --assistant, or a directory "
            "of heads with --head"
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
