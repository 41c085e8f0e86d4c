"""Lines of JSON, each with a checksum over itself and all before it: what was changed, cut out or moved shows.

It guards against accidents of disks, editors and scripts, and against honest mistakes. It is no signature: whoever
writes a file can write all of its checksums.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from eredu.contract.errors import EvidenceError
from eredu.files.json_reading import parse_json

_ENDING = re.compile(rb',"chain":"([0-9a-f]{64})"\}$')


@dataclass(frozen=True, slots=True)
class ChainedLine:
    """A line that was read.

    Attributes:
        record: What it says.
        chain: Its checksum.
        end: Bytes of the file up to its end.
    """

    record: dict[str, Any]
    chain: str
    end: int


def chained_line(record: dict[str, Any], before: str) -> tuple[bytes, str]:
    """A record as a line, and its checksum, which the next line continues; `before` is that of the line before."""
    body = json.dumps(record, allow_nan=False, separators=(",", ":")).encode()
    chain = _checksum(body, before)
    return body[:-1] + f',"chain":"{chain}"}}\n'.encode(), chain


def read_chained(data: bytes, name: str) -> list[ChainedLine]:
    """The whole lines; half a line at the end is none.

    Lines end at a line feed and nowhere else. Raises `EvidenceError` that names the first line that is not what was
    written there: it, or a line before it, was changed, cut out, put in or moved.
    """
    lines: list[ChainedLine] = []
    before, end = "", 0
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        ending = _ENDING.search(line)
        body = line if ending is None else line[: ending.start()] + b"}"
        if ending is None or ending[1].decode() != _checksum(body, before):
            raise EvidenceError(
                f"line {number} of {name} is not what was written there: it was changed, or a line before it was cut "
                "out, put in or moved. Restore the file, or begin the evidence anew"
            )
        before, end = ending[1].decode(), end + len(line) + 1
        record = parse_json(body, name=f"line {number} of {name}", error=EvidenceError, unique=True, finite=True)
        if not isinstance(record, dict):
            raise EvidenceError(f"line {number} of {name} is a JSON {type(record).__name__}; expected an object")
        lines.append(ChainedLine(record, before, end))
    return lines


def _checksum(body: bytes, before: str) -> str:
    return hashlib.sha256(before.encode() + body).hexdigest()
