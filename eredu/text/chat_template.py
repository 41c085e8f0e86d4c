"""Chat templates: Jinja source that comes with a checkpoint, rendered in a sandbox that can read and not act.

The environment is the one that templates are written for (the `transformers` documentation, "Chat templates"):
trimmed blocks, loop controls, `raise_exception`, `strftime_now`, `tojson` without HTML escapes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from eredu.contract.errors import TokenizerError

Message = Mapping[str, object]
"""One turn: `role`, `content`, and whatever else the template of the model reads."""

TEMPLATE_FAILURES = (
    jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip
"""What a template can raise by itself; the sandbox turns the rest into `TemplateError`."""


@dataclass(frozen=True)
class ChatTemplate:
    """One checkpoint's template.

    Attributes:
        source: The Jinja source.
        special_tokens: `bos_token`, `eos_token` and the like, which templates read as variables.
    """

    source: str
    special_tokens: Mapping[str, str] = field(default_factory=dict)

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool = True, **variables: Any) -> str:
        """Prompt text of a chat. Raises `TokenizerError` where the template refuses the chat or is broken.

        Args:
            messages: The turns, oldest first; at least one.
            add_generation_prompt: Whether the text ends where the assistant's turn begins.
            variables: Further template variables (`tools`, `enable_thinking` …).
        """
        if not messages:
            raise TokenizerError("a chat without messages was given; expected at least one message")
        values = {**self.special_tokens, **variables, "add_generation_prompt": add_generation_prompt}
        try:
            return _compiled(self.source).render(messages=[dict(message) for message in messages], **values)
        except TEMPLATE_FAILURES as error:
            raise TokenizerError(
                f"the checkpoint's chat template could not be rendered: {error}. Check the roles and contents of "
                "the messages, or give the prompt as plain text"
            ) from error


@lru_cache(maxsize=16)
def _compiled(source: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().astimezone().strftime(form)
    return environment.from_string(source)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 (templates pass these as they please)
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
