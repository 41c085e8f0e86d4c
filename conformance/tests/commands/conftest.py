"""Tiny checkpoints for whole command lines: a crafted pair, and a GGUF with a tokenizer of its own."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import pytest

from eredu.commands.main import main
from eredu_conformance.crafted import PairDirectories, crafted_pair

Arguments = Sequence[str]


@dataclass(frozen=True)
class Ran:
    """What one command line did."""

    status: int
    stdout: str
    stderr: str


CommandLine = Callable[..., Ran]


@pytest.fixture
def eredu_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Run `eredu ARGUMENTS` in this process, with `stdin` as its standard input."""

    def run(*arguments: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        monkeypatch.setenv("COLUMNS", "200")
        capsys.readouterr()
        status = main(list(arguments))
        printed = capsys.readouterr()
        return Ran(status, printed.out, printed.err)

    return run


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> PairDirectories:
    """Order-2 laws over 5 letters: the draft is right about two times of three."""
    return crafted_pair("order-2").write(tmp_path_factory.mktemp("order-2"))


@pytest.fixture(scope="session")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole llama GGUF with random weights, one layer of width 32, and a byte-level tokenizer over a to h and gh."""
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    width, middle, letters = 32, 64, [*"abcdefgh", "gh"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(middle)
    writer.add_context_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(letters)
    writer.add_token_types([1] * len(letters))
    writer.add_token_merges(["g h"])
    shapes = {
        "token_embd.weight": (len(letters), width),
        "output_norm.weight": (width,),
        "blk.0.attn_norm.weight": (width,),
        "blk.0.ffn_norm.weight": (width,),
        **{f"blk.0.attn_{name}.weight": (width, width) for name in ("q", "k", "v", "output")},
        "blk.0.ffn_gate.weight": (middle, width),
        "blk.0.ffn_up.weight": (middle, width),
        "blk.0.ffn_down.weight": (width, middle),
    }
    generator = np.random.default_rng(5)
    for name, shape in shapes.items():
        writer.add_tensor(name, generator.normal(0, 0.2, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
