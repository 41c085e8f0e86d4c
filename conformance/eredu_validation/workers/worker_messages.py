"""What the processes of one validation tell each other: a JSON object with arrays, as bytes.

Nothing in a message is ever run: arrays are read without pickle, so a stranger on the network can send nonsense and no
more. Floats keep every bit.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eredu.contract.errors import EvidenceError
from eredu.files.json_reading import parse_json
from eredu_validation.evidence import Columns

WORDS = "words"
"""Name of the JSON object among the arrays."""


@dataclass(frozen=True)
class Message:
    """One message.

    Attributes:
        kind: What it is: `ready`, `draw`, `tokens`, `drawn`, `failed`, `pause`, `paused`, `resume`.
        values: JSON values.
        arrays: By name.
    """

    kind: str
    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """As bytes."""
        words = json.dumps({"kind": self.kind, "values": dict(self.values)}).encode()
        stream = io.BytesIO()
        arrays: dict[str, Any] = {WORDS: np.frombuffer(words, dtype=np.uint8), **self.arrays}
        np.savez(stream, **arrays)
        return stream.getvalue()

    @classmethod
    def of_bytes(cls, data: bytes) -> Message:
        """From bytes. Raises `EvidenceError` for bytes that are no message."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            words = parse_json(arrays.pop(WORDS).tobytes())
            return cls(words["kind"], words["values"], arrays)
        except Exception as error:  # zip files fail in many ways
            raise EvidenceError(f"{len(data)} bytes of another process are no message: {error!r}") from error


_PLAIN = ("names", "width")
"""Fields of columns that are no arrays."""


def columns_message(columns: Columns, values: Mapping[str, Any]) -> Message:
    """Drawn tokens as a message; rows that are the target's travel once."""
    arrays = {}
    for each in fields(Columns):
        value = getattr(columns, each.name)
        if each.name in _PLAIN or value is None or (value is columns.target and each.name != "target"):
            continue
        arrays[each.name] = value
    return Message("drawn", {**values, "names": list(columns.names), "width": columns.width}, arrays)


def columns_of_message(message: Message) -> Columns:
    """Drawn tokens from a message, equal in every bit. Raises `EvidenceError` where it holds none."""
    try:
        target = message.arrays["target"]
        shared = dict.fromkeys(("draft", "lagged", "unmasked"), target)
        names, width = tuple(message.values["names"]), int(message.values["width"])
        return Columns(**{**shared, **message.arrays}, names=names, width=width)
    except (KeyError, TypeError, ValueError) as error:
        raise EvidenceError(f"a message of drawn tokens is incomplete: {error!r}") from error
