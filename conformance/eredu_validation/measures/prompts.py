"""The prompts of a validation: a small varied set written for this project, or a file of the caller's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eredu.contract.errors import OptionError
from eredu.files.json_reading import parse_json
from eredu.text.chat_template import Message
from eredu.text.prompt_lines import read_prompt_lines
from eredu.text.tokenizer import Tokenizer
from eredu_validation.measures.long_text import LONG_TEXT


@dataclass(frozen=True, slots=True)
class ValidationPrompt:
    """One prompt: a text, or ids.

    Attributes:
        name: Short and unique in its set.
        text: What the user says; empty where ids are given.
        system: System text of the chat, or None for the template's own.
        tokens: Prompt ids, instead of a text.
    """

    name: str
    text: str = ""
    system: str | None = None
    tokens: tuple[int, ...] = ()


PROMPTS = (
    ValidationPrompt("chat", "My sister moves to Porto in spring. What would be a good farewell present, and why?"),
    ValidationPrompt("story", "Tell a story of a clockmaker who is afraid of bells. End it on a quiet note."),
    ValidationPrompt("explain", "Why is the sky dark at night, although there are so many stars?"),
    ValidationPrompt("numbers", "Count down from 40 to 1 in steps of 3, one number a line."),
    ValidationPrompt("code", "Write a Python function `rotate(matrix)` that turns a square matrix by 90 degrees."),
    ValidationPrompt(
        "repair",
        "What is wrong here, and how would you write it?\n\n```python\ndef mean(values, total=[]):\n"
        "    for v in values:\n        total.append(v)\n    return sum(total) / len(values)\n```",
    ),
    ValidationPrompt(
        "json",
        'Give one JSON object for a railway timetable entry with the keys "train", "from", "to", "departs" (a time), '
        '"stops" (a list of objects with "name" and "minutes") and "daily" (true or false). Nothing but the JSON.',
        "You answer with JSON alone.",
    ),
    ValidationPrompt(
        "table", "Make a Markdown table of four mountain huts: name, altitude in metres, beds, open from."
    ),
    ValidationPrompt(
        "unicode", "Übersetze ins Deutsche und ins Griechische: «The café on the corner – naïve? – is shut.»"
    ),
    ValidationPrompt("emoji", "Answer only with emoji 🙂, at least ten of them: 天気はどうですか? Как дела? مرحبا"),
    ValidationPrompt("repetition", "Write the line 'All boats are in the harbour.' six times, then stop."),
    ValidationPrompt("long context", LONG_TEXT + "\n\nWho found the second key, and where was it? Answer in detail."),
)
"""Chat, code, JSON, tables, long context and scripts of several alphabets."""


def read_prompts(path: Path) -> tuple[ValidationPrompt, ...]:
    """Prompts from JSON lines: objects with `prompt` or `tokens`, and `name` and `system` if wanted.

    Raises `OptionError` with the number of the line that is wrong.
    """
    return read_prompt_lines(path, _parse)


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt as the target reads it.

    Attributes:
        name: Its name.
        tokens: Its ids, at least one.
        replay: Arguments of `eredu generate` that give these ids; empty where none do.
    """

    name: str
    tokens: tuple[int, ...]
    replay: tuple[str, ...] = ()


def encode_prompts(
    prompts: Sequence[ValidationPrompt], tokenizer: Tokenizer, *, rows: int, longest: int
) -> tuple[EncodedPrompt, ...]:
    """Ids of each prompt, its end kept where it is longer than `longest`.

    A checkpoint with a chat template reads a text as one turn of a chat, any other reads it as it stands.

    Raises `OptionError` for ids that the model has no row for, and if no prompt has any id.
    """
    encoded: dict[tuple[int, ...], EncodedPrompt] = {}
    for prompt in prompts:
        whole = _encode(prompt, tokenizer)
        tokens = whole[-longest:]
        if tokens and max(tokens) >= rows:
            raise OptionError(f"prompt '{prompt.name}' holds id {max(tokens)}, and the target has {rows} rows")
        replay = _replay(prompt, tokenizer) if tokens == whole else ()
        if tokens:
            encoded.setdefault(tokens, EncodedPrompt(prompt.name, tokens, replay))
    if not encoded:
        raise OptionError("no prompt has any token in this vocabulary; give --prompts with texts or ids that it knows")
    return tuple(encoded.values())


def prompts_digest(prompts: Sequence[EncodedPrompt]) -> str:
    """SHA-256 of the ids of all prompts."""
    return hashlib.sha256(json.dumps([list(prompt.tokens) for prompt in prompts]).encode()).hexdigest()


def _replay(prompt: ValidationPrompt, tokenizer: Tokenizer) -> tuple[str, ...]:
    if prompt.tokens:
        return ()
    raw = () if tokenizer.chat_template is not None else ("--raw",)
    system = () if prompt.system is None or raw else ("--system", prompt.system)
    return (*raw, *system, prompt.text)


def _encode(prompt: ValidationPrompt, tokenizer: Tokenizer) -> tuple[int, ...]:
    if prompt.tokens:
        return prompt.tokens
    if tokenizer.chat_template is None:
        return tokenizer.encode(prompt.text)
    system: list[Message] = [] if prompt.system is None else [{"role": "system", "content": prompt.system}]
    return tokenizer.apply_chat([*system, {"role": "user", "content": prompt.text}])


def _parse(path: Path, number: int, line: str) -> ValidationPrompt:
    value: Any = parse_json(line, name=f"{path}, line {number},", error=OptionError)
    if not isinstance(value, dict) or not _is_prompt(value):
        raise OptionError(
            f"{path}, line {number}, is {line.strip()[:80]!r}; expected an object with a text 'prompt' or a list of "
            "ids 'tokens', and the texts 'name' and 'system' if wanted"
        )
    return ValidationPrompt(
        value.get("name", f"line {number}"),
        value.get("prompt", ""),
        value.get("system"),
        tuple(value.get("tokens", ())),
    )


def _is_prompt(value: dict[str, Any]) -> bool:
    if not value.keys() <= {"prompt", "tokens", "name", "system"} or ("prompt" in value) == ("tokens" in value):
        return False
    if not all(isinstance(text, str) for name, text in value.items() if name != "tokens"):
        return False
    ids = value.get("tokens", [0])
    return isinstance(ids, list) and bool(ids) and all(type(i) is int and 0 <= i < 2**31 for i in ids)
