"""Seeded mutations of a checkpoint's files: what disks, transfers and ill will do to them."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable
from pathlib import Path

NUMBERS = (0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**64 - 1, 10**40)
WORDS = (b"null", b"true", b"[]", b"{}", b"NaN", b"1e999", b"-0.5", b'"\\ud800"', b'"[/b]\\u001b[31m"', b"[[[[[[[[[[")
HEADER = 4096
"""Bytes at the start of binary files that are hit most often: there the numbers are that everything else follows."""


def mutated(data: bytes, chance: random.Random) -> bytes:
    """One or a few mutations of a file's bytes, never none."""
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        data = chance.choice(MUTATIONS)(data, chance)
    return data


def mutate_one(folder: Path, files: dict[str, bytes], chance: random.Random) -> str:
    """Write all files of a checkpoint into a folder, one of them mutated; return its name."""
    hit = chance.choice(sorted(files))
    for name, data in files.items():
        (folder / name).write_bytes(mutated(data, chance) if name == hit else data)
    return hit


def _place(data: bytes | bytearray, chance: random.Random) -> int:
    return chance.randrange(max(1, min(len(data), HEADER) if chance.random() < 0.8 else len(data)))


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(chance.choice((1, 1, 4, 16))):
        changed[_place(changed, chance)] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: _place(data, chance)]


def _extend(data: bytes, chance: random.Random) -> bytes:
    return data + chance.randbytes(chance.choice((1, 7, 100)))


def _remove(data: bytes, chance: random.Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + data[at + chance.choice((1, 2, 8, 40)) :]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    at, length = _place(data, chance), chance.choice((1, 8, 40, 200))
    return data[: at + length] + data[at : at + length] * chance.choice((1, 1, 3)) + data[at + length :]


def _binary_number(data: bytes, chance: random.Random) -> bytes:
    form, width = chance.choice((("<I", 4), ("<Q", 8)))
    if len(data) < width:
        return data + b"\0"
    at = min(_place(data, chance), len(data) - width)
    value = chance.choice(NUMBERS) & (1 << 8 * width) - 1
    return data[:at] + struct.pack(form, value) + data[at + width :]


def _written_number(data: bytes, chance: random.Random) -> bytes:
    found = list(re.finditer(rb"-?\d+(?:\.\d+)?", data[: 1 << 16]))
    if not found:
        return _flip(data, chance)
    number = chance.choice(found)
    value = str(chance.choice(NUMBERS)).encode() if chance.random() < 0.7 else chance.choice(WORDS)
    return data[: number.start()] + value + data[number.end() :]


def _written_value(data: bytes, chance: random.Random) -> bytes:
    found = list(re.finditer(rb'"[^"\\]{0,60}"', data[: 1 << 16]))
    if not found:
        return _flip(data, chance)
    text, other = chance.choice(found), chance.choice(found)
    value = other[0] if chance.random() < 0.5 else chance.choice(WORDS)
    return data[: text.start()] + value + data[text.end() :]


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _cut,
    _extend,
    _remove,
    _repeat,
    _binary_number,
    _binary_number,
    _written_number,
    _written_number,
    _written_value,
)
