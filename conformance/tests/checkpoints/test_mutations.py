"""Mutated checkpoints are opened, inspected and loaded, or refused in one typed line: no crash, no hang."""

from __future__ import annotations

import contextlib
import io
import json
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import gguf
import numpy as np
import pytest

from eredu.checkpoints.opening import open_checkpoint
from eredu.commands.main import main
from eredu.contract.errors import EreduError
from eredu.contract.message import MOST_CHARACTERS
from eredu.engine.checkpoint import load_checkpoint
from eredu_conformance.crafted import crafted_pair
from eredu_conformance.zoo import zoo_member
from eredu_conformance.zoo.mutating import mutate_one

MOST_S = 5.0
"""Processor seconds that one checkpoint may take: a hundred times what a whole one takes."""
LETTERS = [*"abcdefgh", "gh"]


def gguf_files(folder: Path) -> dict[str, bytes]:
    """A whole llama of one layer with a tokenizer, as one file."""
    path = folder / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(32)
    writer.add_context_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_float64("general.more", 0.5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(LETTERS)
    writer.add_token_types([1] * len(LETTERS))
    writer.add_token_merges(["g h"])
    writer.add_chat_template("{% for message in messages %}{{ message['content'] }}{% endfor %}")
    matrices = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    kinds = gguf.GGMLQuantizationType
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(32, np.float32))
    writer.add_tensor("token_embd.weight", np.ones((len(LETTERS), 32), np.float32))
    for name, kind in zip(
        matrices, [kinds.Q4_0, kinds.Q8_0, kinds.Q4_1, kinds.BF16, kinds.F16, kinds.Q5_0, kinds.F32], strict=True
    ):
        data = gguf.quants.quantize(np.ones((32, 32), np.float32), kind)
        writer.add_tensor(f"blk.0.{name}.weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return {path.name: path.read_bytes()}


def llama_files(folder: Path) -> dict[str, bytes]:
    return read_all(crafted_pair("order-2").write(folder).target)


def heads_files(folder: Path) -> dict[str, bytes]:
    return read_all(zoo_member("qwen3.5").write(folder / "qwen"))


def read_all(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


KINDS: Mapping[str, Callable[[Path], dict[str, bytes]]] = {
    "gguf": gguf_files,
    "llama": llama_files,
    "heads": heads_files,
}


def try_one(place: Path, *, load: bool) -> str | None:
    """Open, inspect and maybe load; return what was said where it was refused. Anything untyped is raised."""
    try:
        opened = open_checkpoint(place)
        json.dumps(opened.report().to_json())
        if load:
            load_checkpoint(opened, tokenizer=opened.tokenizer)
    except EreduError as error:
        return str(error)
    return None


def try_many(kind: str, folder: Path, *, seed: int, count: int, loads: float) -> int:
    """Mutate and try; return how many were refused."""
    chance = random.Random(f"{kind} {seed}")
    made = folder / "made"
    made.mkdir()
    files = KINDS[kind](made)
    refused = 0
    place = folder / "mutated"
    place.mkdir()
    checkpoint = place / "model.gguf" if kind == "gguf" else place
    for number in range(count):
        before = chance.getstate()
        hit = mutate_one(place, files, chance)
        begun = time.process_time()
        try:
            said = try_one(checkpoint, load=chance.random() < loads)
        except Exception as error:
            raise AssertionError(f"{kind}, seed {seed}, number {number}, {hit}: {error!r}") from error
        assert time.process_time() - begun < MOST_S, f"{kind}, seed {seed}, number {number}, {hit}: too slow"
        if said is not None:
            refused += 1
            assert len(said) <= MOST_CHARACTERS, said
            assert said.isprintable(), said
        assert before != chance.getstate()
    return refused


@pytest.mark.parametrize(("kind", "loads"), [("gguf", 1.0), ("llama", 0.1), ("heads", 0.0)])
def test_mutations_are_read_or_refused(kind: str, loads: float, tmp_path: Path) -> None:
    refused = try_many(kind, tmp_path, seed=1, count=120, loads=loads)
    assert 20 < refused <= 120


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("kind", "loads"), [("gguf", 1.0), ("llama", 0.3), ("heads", 0.1)])
def test_many_mutations_are_read_or_refused(kind: str, loads: float, tmp_path: Path) -> None:
    assert try_many(kind, tmp_path, seed=2, count=10_000, loads=loads) > 1000


def test_the_command_says_one_line(tmp_path: Path) -> None:
    chance, files = random.Random(3), gguf_files(tmp_path)
    for _ in range(25):
        mutate_one(tmp_path, files, chance)
        printed, said = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            status = main(["inspect", str(tmp_path / "model.gguf")])
        assert status in {0, 2}
        assert said.getvalue().count("\n") == (status == 2), said.getvalue()
        assert "nobody foresaw" not in said.getvalue()
