"""Where the chat template of a Hugging Face directory lies, and which place goes before which.

As `transformers` has it:

1. `chat_template.jinja`, and `additional_chat_templates/NAME.jinja` for further ones by name; where any of these is
   there, the places below count no more;
2. `chat_template` of `tokenizer_config.json`: a template, a list of `{"name": …, "template": …}`, or an object of
   templates by name;
3. `chat_template` of `chat_template.json`, where processors of several modalities kept it.

Of several, `tool_use` renders chats with tools and `default` all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from eredu.contract.errors import TokenizerError
from eredu.files.json_reading import read_json_object
from eredu.text.chat_template import ChatTemplate
from eredu.text.template_environment import MOST_SOURCE

DEFAULT = "default"
TOOLS = "tool_use"
FILE = "chat_template.jinja"
FOLDER = "additional_chat_templates"
LEGACY_FILE = "chat_template.json"
KEY = "chat_template"
SUFFIX = ".jinja"


def read_chat_template(
    directory: Path, config: Mapping[str, Any], special_tokens: Mapping[str, str]
) -> ChatTemplate | None:
    """The template of a directory, None where it has none.

    Args:
        directory: Where it lies.
        config: Content of its tokenizer_config.json.
        special_tokens: Variables of the template.

    Raises `TokenizerError` for templates that cannot be read or are no text.
    """
    named = _in_files(directory) or named_templates(config.get(KEY), directory / "tokenizer_config.json")
    legacy = directory / LEGACY_FILE
    if not named and legacy.is_file():
        named = named_templates(read_json_object(legacy, error=TokenizerError).get(KEY), legacy)
    return chosen_template(named, special_tokens)


def chosen_template(named: Mapping[str, str], special_tokens: Mapping[str, str]) -> ChatTemplate | None:
    """The template out of those by name; None of none. Without a default one, chats without tools are refused."""
    if not named:
        return None
    return ChatTemplate(named.get(DEFAULT) or _without_default(named), special_tokens, named.get(TOOLS))


def named_templates(value: Any, place: Path | str) -> dict[str, str]:
    """Templates by name, of whichever form `chat_template` has. Raises `TokenizerError` for another one."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {DEFAULT: value}
    if isinstance(value, list):
        entries = [entry if isinstance(entry, dict) else {} for entry in value]
        value = {entry.get("name"): entry.get("template") for entry in entries}
    if isinstance(value, dict) and all(isinstance(each, str) for each in (*value.keys(), *value.values())):
        return value
    raise TokenizerError(
        f"{place} gives {KEY} as a JSON {type(value).__name__} that is neither a template nor templates by name; "
        "expected a text, or a list of objects with the texts 'name' and 'template'"
    )


def _in_files(directory: Path) -> dict[str, str]:
    files = {path.name.removesuffix(SUFFIX): path for path in sorted((directory / FOLDER).glob(f"*{SUFFIX}"))}
    if (directory / FILE).is_file():
        files = {DEFAULT: directory / FILE, **files}
    return {name: _read(path) for name, path in files.items()}


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(4 * MOST_SOURCE + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(f"{path} could not be read as text: {error}; fetch the file again") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")  # as reading text does everywhere


def _without_default(names: Iterable[str]) -> str:
    """A template that says that there is none for a chat without tools."""
    listed = ", ".join(sorted(names)).replace("'", "").replace("\\", "")[:200]
    return f"{{{{ raise_exception('it has templates by the names {listed} and no default one') }}}}"
