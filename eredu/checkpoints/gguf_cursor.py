"""A cursor over the bytes of a GGUF header: numbers, strings and values, each within the file and within reason.

Every length is checked against the file and against what any model has before it is believed, so a truncated, damaged
or hostile file is an error with the place where it breaks, and never a huge allocation: a sparse file announces what it
likes at no cost.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from eredu.contract.errors import CheckpointError

MAX_NESTING = 4
MAX_HEADER_BYTES = 1 << 27
"""Of metadata and table: 128 MiB, some ten times the largest vocabulary with its merges."""
MAX_ITEMS = 1 << 22
"""Of all metadata values and their items, and of tensors: a vocabulary of a million has three arrays of as many."""
NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9


class GgufCursor:
    """The place up to which a header was read.

    Args:
        path: The file, named by errors.
        data: Its bytes.

    Every method raises `CheckpointError` for bytes that are not there, or that no header has.
    """

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.size = len(data)
        self.at = 0
        self.items_left = MAX_ITEMS

    def number(self, form: str) -> Any:
        """One number."""
        width = struct.calcsize(form)
        self.require(width)
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += width
        return value

    def numbers(self, form: str, length: int, key: str) -> list[Any]:
        """So many numbers."""
        width = struct.calcsize(form)
        self.count(length, width, f"items of {key!r}")
        values = struct.unpack_from(f"<{length}{form[1]}", self.data, self.at)
        self.at += width * length
        return list(values)

    def string(self) -> str:
        """A string: its length, then its bytes."""
        length = self.number("<Q")
        self.require(length)
        raw = self.data[self.at : self.at + length]
        self.at += length
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.damaged("a string is not UTF-8")

    def require(self, width: int) -> None:
        """So many bytes more must be there."""
        if self.at + width > self.size:
            raise CheckpointError(
                f"{self.path} is cut short: its header goes on at byte {self.at} for {width} bytes more, the file has "
                f"{self.size}: fetch it again"
            )
        if self.at + width > MAX_HEADER_BYTES:
            self.damaged(f"its header goes on for {width} bytes, past the {MAX_HEADER_BYTES} that eredu reads of one")

    def count(self, count: int, least_bytes: int, what: str) -> int:
        """A count from the file, if so many things could still be in it, and a model could have them."""
        if count * least_bytes > self.size - self.at:
            raise CheckpointError(
                f"{self.path} is cut short or damaged: it announces {count} {what} at byte {self.at}, and the file has "
                f"{self.size} bytes: fetch it again"
            )
        self.items_left -= count
        if self.items_left < 0:
            self.damaged(f"it announces {count} {what}; eredu reads {MAX_ITEMS} values and tensors of one file")
        return count

    def damaged(self, what: str) -> NoReturn:
        """Raise what says where the file is damaged."""
        raise CheckpointError(f"{self.path} is damaged near byte {self.at}: {what}; fetch or convert the file again")

    def value(self, kind: int, key: str, depth: int = 0) -> Any:
        """The value of a key, of a type by its number; arrays are lists."""
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == STRING:
            return self.string()
        if kind != ARRAY or depth == MAX_NESTING:
            self.damaged(f"the value of {key!r} has the unknown type {kind}")
        item, length = self.number("<I"), self.number("<Q")
        if item in NUMBERS:
            return self.numbers(NUMBERS[item], length, key)
        self.count(length, 8, f"items of {key!r}")
        read: Callable[[], Any] = self.string if item == STRING else lambda: self.value(item, key, depth + 1)
        return [read() for _ in range(length)]
