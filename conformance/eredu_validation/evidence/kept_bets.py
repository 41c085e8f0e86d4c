"""What running evidence has learned, as one file: with it a resumed run is the run that was never interrupted.

Only what later tokens depend on is kept: the counts of the bets that learn, the wealth and the tally to the last bit.
What is remembered of single requests is not, for a session goes on with requests that nobody has any token of.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eredu.contract.errors import EvidenceError
from eredu.files.json_reading import parse_json

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class KeptBets:
    """Arrays by name, and values that are JSON.

    Attributes:
        arrays: Names are paths: the place of a family, then what it calls the array.
        values: The rest.
    """

    arrays: Arrays
    values: Mapping[str, Any]

    def to_bytes(self) -> bytes:
        """One file in NumPy's form."""
        stream = io.BytesIO()
        text = np.frombuffer(json.dumps(self.values).encode(), dtype=np.uint8)
        named: dict[str, Any] = {f"array {name}": array for name, array in self.arrays.items()}
        np.savez(stream, values=text, **named)
        return stream.getvalue()

    @classmethod
    def of_bytes(cls, data: bytes) -> Self:
        """Read again. Nothing in it can run. Raises `EvidenceError` for what `to_bytes` did not write."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as stored:
                values = parse_json(stored["values"].tobytes())
                arrays = {name.removeprefix("array "): stored[name] for name in stored.files if name != "values"}
        except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
            raise EvidenceError(f"what the bets learned cannot be read: {error}; begin the evidence anew") from error
        return cls(arrays, values)


def below(arrays: Arrays, place: str) -> dict[str, NDArray[Any]]:
    """The arrays of one place, by their names there."""
    return {name.removeprefix(f"{place}/"): array for name, array in arrays.items() if name.startswith(f"{place}/")}


def put_below(arrays: Arrays, place: str) -> dict[str, NDArray[Any]]:
    """Arrays under the name of a place."""
    return {f"{place}/{name}": array for name, array in arrays.items()}
