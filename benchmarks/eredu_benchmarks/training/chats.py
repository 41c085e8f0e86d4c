"""Chats in the tiny models' own ids, made from chats in the ids of another tokenizer.

An archive of chats holds all ids one after the other, and for each chat the length of its prompt and of the whole.
The default system turn of the source model is dropped: it names that model, and costs context.

`python -m eredu_benchmarks.training.chats corpus.npz.xz eval.npz.xz tokenizer.json FOLDER` trains the tokenizer and
writes `tokenizer.json`, `corpus.npz.xz` and `eval.npz.xz` into the folder.
"""

from __future__ import annotations

import io
import lzma
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from eredu_benchmarks.training.tokenizer import SPECIAL_TOKENS, TURN_END, TURN_START, train_tokenizer

DEFAULT_SYSTEM = f"{TURN_START}system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face{TURN_END}\n"
MARKERS = re.compile("|".join(map(re.escape, SPECIAL_TOKENS)))
COOL = 0.5
"""Replies sampled at a temperature up to this are the cleaner text."""
LEFT_OUT = (7, 10)
"""Kinds of chat that the models do not learn: program code, and remarks on other replies."""
TEXTS_FOR_TOKENIZER = 40_000
"""Chats that the tokenizer is trained on: more change few of its merges and take minutes."""


@dataclass(frozen=True, eq=False)
class Chats:
    """Chats one after the other.

    Attributes:
        tokens: All ids, shape (total,), uint16.
        prompt_lengths: Ids of each prompt, shape (chats,), int64.
        lengths: Ids of each chat, shape (chats,), int64.
        is_warm: Which replies were sampled at a high temperature, shape (chats,), bool.
    """

    tokens: NDArray[np.uint16]
    prompt_lengths: NDArray[np.int64]
    lengths: NDArray[np.int64]
    is_warm: NDArray[np.bool_]

    @classmethod
    def of(cls, arrays: Any, suffix: str = "") -> Chats:
        """From the arrays of an archive; `suffix` as in `_1.0` picks the chats of one temperature."""
        prompts, lengths = (np.asarray(arrays[f"{name}{suffix}"], dtype=np.int64) for name in ("plen", "tlen"))
        return cls(arrays[f"tokens{suffix}"], prompts, lengths, arrays[f"temp{suffix}"] > COOL)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each chat begins in `tokens`, shape (chats,)."""
        return np.cumsum(self.lengths) - self.lengths

    def arrays(self, suffix: str = "") -> dict[str, NDArray[Any]]:
        """Arrays of an archive."""
        named = {
            "tokens": self.tokens,
            "plen": self.prompt_lengths.astype(np.uint16),
            "tlen": self.lengths.astype(np.uint16),
            "temp": self.is_warm.astype(np.float16),
        }
        return {f"{name}{suffix}": array for name, array in named.items()}


def read_archive(path: Path) -> dict[str, NDArray[Any]]:
    """Arrays of an `.npz.xz` file."""
    with np.load(io.BytesIO(lzma.decompress(path.read_bytes())), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays}


def write_archive(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write an `.npz.xz` file."""
    plain = io.BytesIO()
    np.savez(plain, **arrays)  # type: ignore[arg-type]
    path.write_bytes(lzma.compress(plain.getvalue(), preset=6))


def halves(chats: Chats, tokenizer: Tokenizer) -> Iterator[tuple[str, str]]:
    """Prompt and reply of each chat as text, markers included, the default system turn dropped."""
    for start, prompt, length in zip(chats.starts, chats.prompt_lengths, chats.lengths, strict=True):
        ids = chats.tokens[start : start + length].tolist()
        texts = [tokenizer.decode(part, skip_special_tokens=False) for part in (ids[:prompt], ids[prompt:])]
        yield texts[0].removeprefix(DEFAULT_SYSTEM), texts[1]


def encode_halves(texts: list[tuple[str, str]], is_warm: NDArray[np.bool_], tokenizer: Tokenizer) -> Chats:
    """The same chats in the ids of `tokenizer`; prompt and reply are encoded apart, as they are when decoding."""
    flat = [text for pair in texts for text in pair]
    lists = [encoding.ids for encoding in tokenizer.encode_batch(flat, add_special_tokens=False)]
    sizes = np.array([len(ids) for ids in lists], dtype=np.int64).reshape(-1, 2)
    tokens = np.fromiter((token for ids in lists for token in ids), dtype=np.uint16, count=int(sizes.sum()))
    return Chats(tokens, sizes[:, 0], sizes.sum(axis=1), is_warm)


def main(arguments: list[str]) -> None:
    """Train the tokenizer and write the chats in its ids."""
    corpus_path, held_out_path, source, folder = map(Path, arguments)
    from_ids = Tokenizer.from_file(str(source))
    corpus = read_archive(corpus_path)
    chats = Chats.of(corpus)
    texts = list(halves(chats, from_ids))
    step = max(1, len(texts) // TEXTS_FOR_TOKENIZER)
    tokenizer = train_tokenizer(part for pair in texts[::step] for text in pair for part in MARKERS.split(text))
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    learned = np.isin(corpus["cat"], LEFT_OUT, invert=True)
    kept = encode_halves([texts[i] for i in np.flatnonzero(learned)], chats.is_warm[learned], tokenizer)
    write_archive(folder / "corpus.npz.xz", kept.arrays())
    held_out = read_archive(held_out_path)
    written: dict[str, NDArray[Any]] = {}
    for suffix in sorted(name.removeprefix("tokens") for name in held_out if name.startswith("tokens")):
        some = Chats.of(held_out, suffix)
        written |= encode_halves(list(halves(some, from_ids)), some.is_warm, tokenizer).arrays(suffix)
    write_archive(folder / "eval.npz.xz", written)


if __name__ == "__main__":
    main(sys.argv[1:])
