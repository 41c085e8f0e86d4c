"""A terminal to which text is text: names out of files and words of other programs are neither markup nor commands.

Rich reads `[/b]` in a string as markup and `:smile:` as an emoji, and passes escape sequences on to the terminal. What
a table of eredu shows was often written by strangers, so none of that is done; where eredu itself wants a style, it
says so beside the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from eredu.contract.message import visible

ItemT = TypeVar("ItemT")


class PlainConsole(Console):
    """A console whose strings are shown as they are, what a terminal would obey spelled out."""

    def __init__(self, file: IO[str] | None = None, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(file=file, stderr=stderr, width=width, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Every string of a print, a table or a title passes here."""
        return super().render_str(visible(text), **{**options, "markup": False, "emoji": False, "highlight": False})


class PlainColumn(TextColumn):
    """A column of a progress bar that shows a field, such as `{task.description}`, as it is."""

    def __init__(self, text_format: str = "{task.description}") -> None:
        super().__init__(text_format, markup=False, table_column=Column(no_wrap=True))

    def render(self, task: Task) -> Text:
        """The field in one line."""
        return Text(visible(super().render(task).plain))


def track(items: Sequence[ItemT], description: str) -> Iterator[ItemT]:
    """The items, with a progress bar on stderr."""
    columns = (PlainColumn(), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=PlainConsole(stderr=True)) as bar:
        yield from bar.track(items, description=description)
