import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.progress import Progress
from rich.table import Table

from eredu.contract.message import html_text, one_line, visible
from eredu.files.plain_console import PlainColumn, PlainConsole, track

HOSTILE = (
    "[/b]",
    "[bold]x[/bold]",
    "[link=http://x]y[/link]",
    "[",
    ":smile:",
    "\\[a]",
    "\x1b[31mred",
    "\x9b2J",
    "\u202eabc",
)
OBEYED = set(map(chr, [*range(10), *range(11, 32), *range(127, 160), 0x202E, 0x2028, 0xFEFF]))
"""Characters that a terminal obeys or hides, without the line feed."""


def printed(text: str) -> str:
    stream = io.StringIO()
    console = PlainConsole(file=stream, width=400)
    table = Table(title=text)
    table.add_column(text)
    table.add_row(text)
    table.caption = text
    console.print(table)
    console.print(text, soft_wrap=True)
    return stream.getvalue()


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_names_are_text_everywhere(text: str) -> None:
    assert printed(text).count(visible(text)) == 5


@given(st.text(max_size=20))
def test_nothing_that_a_terminal_obeys_is_printed(text: str) -> None:
    assert not set(printed(text)) & OBEYED
    assert not set(visible(text)) & OBEYED
    assert not set(html_text(text)) & (OBEYED | set("<>\"'"))
    assert visible(visible(text)) == visible(text)
    assert one_line(one_line(text)) == one_line(text)


def test_a_progress_bar_shows_names_as_they_are() -> None:
    stream = io.StringIO()
    console = PlainConsole(file=stream, width=100)
    with Progress(PlainColumn(), PlainColumn("{task.fields[evidence]}"), console=console) as bar:
        bar.add_task("[/b] [bold]a\x1b[31m", evidence="[/i]")
    assert "[/b] [bold]a\\x1b[31m [/i]" in stream.getvalue()
    assert list(track([1, 2], "[/b]")) == [1, 2]


def test_what_is_visible_already_stays() -> None:
    assert visible("naïve\n日本 [x]") == "naïve\n日本 [x]"
    assert visible("a\tb\r") == "a\\tb\\r"
