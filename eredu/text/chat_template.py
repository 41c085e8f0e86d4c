"""Chat templates: Jinja source that comes with a checkpoint, rendered in a sandbox that can read and not act.

What is rendered, and with which variables, is what `transformers` renders (`apply_chat_template`). A template that
refuses a chat, one that is broken, and one that runs on are three things, and each is called by its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jinja2

from eredu.contract.errors import TokenizerError
from eredu.text.template_budget import TemplateLimitError, budgeted
from eredu.text.template_environment import TemplateRefusalError, compiled

Message = Mapping[str, object]
"""One turn: `role`, `content`, and whatever else the template of the model reads."""

FAILURES = (
    jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, SyntaxError,
    TypeError, ValueError, NameError, AssertionError, NotImplementedError, StopIteration,
)  # fmt: skip
"""What a template can raise by itself: Jinja's errors, those of what it calls, and those of compiling it."""
REASONING = ("reasoning_content", "thinking", "reasoning")
"""Keys under which messages carry what the model thought; templates read the first or the second."""
AS_TEXT = "give the prompt as plain text, without the template"


@dataclass(frozen=True)
class ChatTemplate:
    """One checkpoint's template.

    Attributes:
        source: The Jinja source.
        special_tokens: `bos_token`, `eos_token` and the like, which templates read as variables.
        tool_source: The source for chats with tools, None where it is the same.
    """

    source: str
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    tool_source: str | None = None

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool = True, **variables: Any) -> str:
        """Prompt text of a chat. Raises `TokenizerError` where the template refuses the chat, is broken, or runs on.

        Args:
            messages: The turns, oldest first; at least one.
            add_generation_prompt: Whether the text ends where the assistant's turn begins.
            variables: Further template variables (`tools`, `documents`, `enable_thinking` …).
        """
        if not messages:
            raise TokenizerError("a chat without messages was given; expected at least one message")
        given = {"tools": None, "documents": None, **self.special_tokens, **variables}
        values = {name: _plain(value) for name, value in given.items()}
        chat = [_told(message) for message in messages]
        source = self.source if values["tools"] is None or self.tool_source is None else self.tool_source
        try:
            with budgeted():
                return compiled(source).render(messages=chat, add_generation_prompt=add_generation_prompt, **values)
        except TemplateRefusalError as error:
            raise TokenizerError(
                f"the checkpoint's chat template refuses this chat: {_told_by(error)}. Change the messages, or "
                f"{AS_TEXT}"
            ) from None
        except TemplateLimitError as error:
            raise TokenizerError(f"the checkpoint's chat template was stopped: {error}; {AS_TEXT}") from None
        except (jinja2.TemplateSyntaxError, SyntaxError) as error:
            line = f" in its line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
            raise TokenizerError(
                f"the checkpoint's chat template is no template{line}: {_told_by(error)}. Fetch it again, or {AS_TEXT}"
            ) from None
        except FAILURES as error:
            raise TokenizerError(
                f"the checkpoint's chat template failed: {_told_by(error)}. The template may be damaged, or not made "
                f"for such a chat; {AS_TEXT}"
            ) from None


def _told(message: Message) -> dict[str, Any]:
    """A message as templates read it: no keys without a value, and the model's thoughts under both their names."""
    plain = {str(key): _plain(value) for key, value in message.items() if value is not None}
    thought = next((plain[key] for key in REASONING if plain.get(key) is not None), None)
    return plain if thought is None else {"thinking": thought, **plain, "reasoning_content": thought}


def _plain(value: Any) -> Any:
    """A value out of JSON's kinds alone, for the sandbox does not know the methods of others; those become a name."""
    if value is None or type(value) in {str, int, float, bool}:
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return f"<{type(value).__name__}>"


def _told_by(error: BaseException) -> str:
    words = (error.msg if isinstance(error, SyntaxError) else str(error)).rstrip(".")
    return words if isinstance(error, jinja2.TemplateError) else f"{type(error).__name__}: {words}"
