"""Held-out chats: prompts with replies that the target itself sampled, at several temperatures, in one file.

The file is an `.npz` (or `.npz.xz`) archive. For each temperature T, as text, it holds `tokens_T`, the ids of all
chats one after the other, and a prompt length `plen_T` and a total length `tlen_T` for each chat.
"""

from __future__ import annotations

import io
import lzma
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eredu.contract.errors import OptionError

_PREFIX = "tokens_"


@dataclass(frozen=True, eq=False)
class Chat:
    """One chat.

    Attributes:
        tokens: Ids of prompt and reply, shape (length,), int64.
        prompt_length: How many of them are the prompt.
    """

    tokens: NDArray[np.int64]
    prompt_length: int

    @property
    def reply_rows(self) -> slice:
        """Rows of the logits over all tokens that predict a reply token."""
        return slice(self.prompt_length - 1, len(self.tokens) - 1)


@dataclass(frozen=True)
class HeldOutChats:
    """All chats of a file, by the temperature that their replies were sampled at."""

    by_temperature: dict[float, tuple[Chat, ...]]

    @classmethod
    def read(cls, path: Path) -> HeldOutChats:
        """Read a file. Raises `OptionError` if it is not one of held-out chats."""
        try:
            content = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                names = [name.removeprefix(_PREFIX) for name in arrays if name.startswith(_PREFIX)]
                chats = {float(name): _chats(arrays, name) for name in names}
        except (OSError, lzma.LZMAError, zipfile.BadZipFile, ValueError, KeyError) as error:
            raise OptionError(
                f"{path} is no file of held-out chats: {error}; expected an .npz or .npz.xz with tokens_T, plen_T and "
                "tlen_T for each temperature T"
            ) from error
        if not chats:
            raise OptionError(f"{path} holds no array called {_PREFIX}…, so no chats")
        return cls(chats)

    def spread(self, temperature: float, count: int | None) -> tuple[Chat, ...]:
        """`count` chats evenly spread over those of a temperature; None or too large a count takes all."""
        chats = self.by_temperature[temperature]
        if count is None or count >= len(chats):
            return chats
        return tuple(chats[at * len(chats) // count] for at in range(count))


def _chats(arrays: Any, name: str) -> tuple[Chat, ...]:
    tokens = np.asarray(arrays[f"{_PREFIX}{name}"], dtype=np.int64)
    lengths = np.asarray(arrays[f"tlen_{name}"], dtype=np.int64)
    prompts = np.asarray(arrays[f"plen_{name}"], dtype=np.int64)
    ends = np.cumsum(lengths)
    if len(ends) == 0 or ends[-1] != len(tokens) or len(prompts) != len(ends):
        raise ValueError(f"the lengths of temperature {name} do not add up to its {len(tokens)} tokens")
    if (prompts < 1).any() or (prompts >= lengths).any():
        raise ValueError(f"a chat of temperature {name} has no prompt or no reply")
    return tuple(Chat(tokens[end - n : end], int(p)) for end, n, p in zip(ends, lengths, prompts, strict=True))
