import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eredu.contract.errors import CheckpointError, EreduError, JsonError, TokenizerError
from eredu.contract.message import MOST_CHARACTERS
from eredu.files.json_reading import MAX_DEPTH, json_lines, parse_json, read_json, read_json_object
from eredu.text.prompt_lines import read_prompt_lines

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)
LINE_ENDS_OF_OTHERS = ("\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e")


@given(VALUES)
def test_json_is_read_as_the_standard_library_does(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        try:
            text.encode()
        except UnicodeEncodeError:
            continue  # a lone surrogate, which only an escape can spell
        assert parse_json(text) == parse_json(text.encode()) == value


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + closing * depth


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ("{} {}", "Extra data"),
        (b"\xff\xfe", "codec"),
        (b"\xef\xbb\xbf{}", "BOM"),
        ("9" * 5000, "4300"),
        (nested(MAX_DEPTH + 1), "more than 128 deep"),
        (nested(100_000), "more than 128 deep"),
        ("[" * 100_000, "more than 128 deep"),
        ('{"a":' * 100_000, "more than 128 deep"),
        ('{"a":' * 200 + "1" + "}" * 200, "more than 128 deep"),
    ],
    ids=range(11),
)
def test_what_is_no_json_or_too_deep_is_one_typed_line(text: str | bytes, words: str) -> None:
    with pytest.raises(TokenizerError, match=words) as caught:
        parse_json(text, name="a/tokenizer.json", error=TokenizerError)
    message = str(caught.value)
    assert "a/tokenizer.json" in message
    assert "\n" not in message
    assert len(message) <= MOST_CHARACTERS


def test_the_depth_that_is_allowed() -> None:
    assert parse_json(nested(MAX_DEPTH)) is not None
    assert len(parse_json("[" + ",".join(["[]"] * 1000) + "]")) == 1000


def test_bounds_come_before_parsing() -> None:
    text = "[" + "[]," * 400_000 + "[]]"
    tracemalloc.start()
    with pytest.raises(JsonError, match="commas, colons and brackets"):
        parse_json(text, max_marks=100_000)
    with pytest.raises(JsonError, match="more than 1000 bytes"):
        parse_json(text, max_bytes=1000)
    assert tracemalloc.get_traced_memory()[1] < 4 * len(text)
    tracemalloc.stop()


def test_equal_names_and_numbers_that_are_none() -> None:
    assert parse_json('{"a": 1, "a": 2}') == {"a": 2}
    assert parse_json('{"limit": [0.0, Infinity]}') == {"limit": [0.0, math.inf]}  # as published configs have it
    with pytest.raises(JsonError, match="a name occurs twice"):
        parse_json('[{"a": 1, "a": 2}]', unique=True)
    for constant in ("NaN", "Infinity", "-Infinity"):
        with pytest.raises(JsonError, match=f"number {constant}"):
            parse_json(f"[{constant}]", finite=True)


def test_errors_of_files_name_them(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with pytest.raises(CheckpointError, match=r"config\.json could not be read: No such file"):
        read_json(path, error=CheckpointError)
    with pytest.raises(JsonError, match="Is a directory"):
        read_json(tmp_path)
    path.write_text("[1]")
    assert read_json(path) == [1]
    with pytest.raises(JsonError, match=r"config\.json holds a JSON list; expected an object"):
        read_json_object(path)
    assert issubclass(JsonError, EreduError)
    assert issubclass(JsonError, ValueError)


@pytest.mark.parametrize("character", LINE_ENDS_OF_OTHERS, ids=ascii)
def test_only_line_feeds_end_lines(tmp_path: Path, character: str) -> None:
    text = f'"a{character}b"\n\n \r\n"c"\r\n'
    assert list(json_lines(text)) == [(1, f'"a{character}b"'), (4, '"c"\r')]
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(text.encode())
    assert read_prompt_lines(path, lambda _, number, line: (number, line.strip()))[0] == (1, f'"a{character}b"')
