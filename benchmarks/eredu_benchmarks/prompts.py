"""The prompts that a benchmark decodes: a small varied set of its own, or a file of the caller's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eredu.contract.errors import OptionError
from eredu.files.json_reading import parse_json
from eredu.text.prompt_lines import read_prompt_lines


@dataclass(frozen=True, slots=True)
class Prompt:
    """One chat turn.

    Attributes:
        name: Short and unique in its set.
        text: What the user says.
        system: System text, or None for the template's own.
    """

    name: str
    text: str
    system: str | None = None


PROMPTS = (
    Prompt("story", "Write a short story about a ferryman who finds a letter under the planks of his boat."),
    Prompt("fable", "Tell a fable in which a heron and a crab argue about the tide, and say what it teaches."),
    Prompt("question", "Why does bread rise when it is left in a warm place?"),
    Prompt("explain", "Explain to a ten-year-old how a lock lifts a barge from one canal level to the next."),
    Prompt("code", "Write a Python function that returns the longest run of equal values in a list, with a docstring."),
    Prompt("json", 'Give a JSON object for a library book with the keys "title", "author", "year" and "tags".'),
    Prompt("list", "List eight things to check before a long bicycle tour, one a line."),
    Prompt("steps", "How do I repot a cactus? Answer in numbered steps."),
    Prompt("dialogue", "Write a dialogue between a tailor and a customer whose coat has lost all of its buttons."),
    Prompt("rewrite", "Rewrite in a friendly tone: The meeting was moved to Tuesday. Bring the corrected figures."),
    Prompt("summary", "Summarise in two sentences why coastal towns built lighthouses before they built railways."),
    Prompt("letter", "Write a short letter to a neighbour, thanking her for watering the tomatoes.", "You are polite."),
)
"""Written for this project; eleven of them leave the system text to the template."""


def read_prompts(path: Path) -> tuple[Prompt, ...]:
    """Prompts from a file of JSON lines: objects with `prompt`, and `name` and `system` if wanted.

    Raises `OptionError` with the number of the line that is wrong.
    """
    prompts = read_prompt_lines(path, _parse)
    names = [prompt.name for prompt in prompts]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise OptionError(f"{path} uses the name {twice[0]!r} more than once; give each prompt its own, or none")
    return prompts


def _parse(path: Path, number: int, line: str) -> Prompt:
    value: Any = parse_json(line, name=f"{path}, line {number},", error=OptionError)
    known = {"prompt", "name", "system"}
    texts = isinstance(value, dict) and all(isinstance(entry, str) for entry in value.values())
    if not texts or "prompt" not in value or not value.keys() <= known:
        raise OptionError(
            f"{path}, line {number}, is {line.strip()[:80]!r}; expected an object with the text 'prompt' and, if "
            "wanted, the texts 'name' and 'system'"
        )
    return Prompt(value.get("name", f"line-{number}"), value["prompt"], value.get("system"))
