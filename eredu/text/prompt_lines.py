"""Files of prompts: one JSON object a line, whatever a command makes of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from eredu.contract.errors import OptionError
from eredu.files.json_reading import json_lines

PromptT = TypeVar("PromptT")


def read_prompt_lines(path: Path, parse: Callable[[Path, int, str], PromptT]) -> tuple[PromptT, ...]:
    """The prompts of a file; `parse` takes the file, the number of the line from 1, and the line.

    Raises `OptionError` for a file that cannot be read or holds no prompt, and whatever `parse` raises.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"the prompts in {path} cannot be read: {error}; give a UTF-8 file of JSON lines") from error
    prompts = tuple(parse(path, number, line) for number, line in json_lines(text))
    if not prompts:
        raise OptionError(f'{path} holds no prompt; give one JSON object a line, such as {{"prompt": "Hello"}}')
    return prompts
