"""The tokenizer that a checkpoint carries, whatever its form."""

from __future__ import annotations

from pathlib import Path

from eredu.checkpoints.gguf_header import read_gguf_header
from eredu.contract.errors import TokenizerError
from eredu.text.gguf import load_metadata
from eredu.text.huggingface import load_directory
from eredu.text.tokenizer import Tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """Tokenizer of a Hugging Face directory or a GGUF file.

    Raises `CheckpointError` for a file that is no readable GGUF, `TokenizerError` for a tokenizer that eredu cannot
    reproduce exactly.
    """
    if path.is_dir():
        return load_directory(path)
    try:
        return load_metadata(read_gguf_header(path).metadata)
    except TokenizerError as error:
        raise TokenizerError(f"{path}: {error}") from error
