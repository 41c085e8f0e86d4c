"""A set of GGUF parts is one checkpoint, whichever part is given; what is missing of it is refused by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from eredu.checkpoints.gguf_set import read_gguf
from eredu.checkpoints.opening import open_checkpoint
from eredu.contract.errors import CheckpointError

Write = Callable[..., list[Path]]
COUNTS = {
    "block_count": 1,
    "embedding_length": 8,
    "context_length": 64,
    "feed_forward_length": 8,
    "attention.head_count": 2,
}
Tensors = list[tuple[str, tuple[int, ...]]]
ATTENTION: Tensors = [(f"blk.0.attn_{part}.weight", (8, 8)) for part in ("q", "k", "v", "output")]
FEED_FORWARD: Tensors = [(f"blk.0.ffn_{part}.weight", (8, 8)) for part in ("gate", "up", "down")]
NORMS: Tensors = [(name, (8,)) for name in ("blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight")]
GROUPS: list[Tensors] = [[("token_embd.weight", (16, 8)), *NORMS], ATTENTION, FEED_FORWARD]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a set as llama.cpp's tool does: metadata in the first part, `split.*` in all of them."""

    def write(folder: str = "set", **changes: Mapping[int, Any]) -> list[Path]:
        paths = []
        (tmp_path / folder).mkdir()
        for number, group in enumerate(GROUPS):
            path = tmp_path / folder / f"tiny-{number + 1:05}-of-{len(GROUPS):05}.gguf"
            writer = gguf.GGUFWriter(path, "llama")
            if number:
                writer.kv_data[0].clear()
            else:
                for key, value in COUNTS.items():
                    writer.add_uint32(f"llama.{key}", value)
                writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
            writer.add_uint16("split.no", changes.get("number", {}).get(number, number))
            writer.add_uint16("split.count", changes.get("count", {}).get(number, len(GROUPS)))
            writer.add_int32("split.tensors.count", changes.get("total", {}).get(number, sum(map(len, GROUPS))))
            for name, shape in group:
                writer.add_tensor(name, np.ones(shape, np.float32))
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            paths.append(path)
        return paths

    return write


def test_every_part_opens_the_whole(write: Write) -> None:
    paths = write()
    for path in paths:
        header = read_gguf(path)
        assert header.path == paths[0]
        assert header.files == tuple(paths)
        assert len(header.tensors) == sum(map(len, GROUPS))
        assert not any(key.startswith("split.") for key in header.metadata)
        assert open_checkpoint(path).report().parameter_count == 128 + 7 * 64 + 3 * 8


def test_links_into_a_cache_are_parts_by_their_own_names(write: Write, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "blobs").mkdir()
    for number, path in enumerate(write()):
        blob = tmp_path / "blobs" / f"{number:064x}"
        shutil.move(path, blob)
        (tmp_path / "links" / path.name).symlink_to(blob)
    opened = read_gguf(tmp_path / "links" / "tiny-00002-of-00003.gguf")
    assert {tensor.name for tensor in opened.tensors} == {name for group in GROUPS for name, _ in group}
    with pytest.raises(CheckpointError, match=r"is one of 3 parts of a GGUF, .* MODEL-00001-of-00003\.gguf"):
        read_gguf(tmp_path / "blobs" / f"{0:064x}")


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_part_is_named(write: Write, missing: int) -> None:
    paths = write()
    paths[missing].unlink()
    with pytest.raises(CheckpointError, match=f"1 of them are missing beside it, such as {paths[missing].name}"):
        open_checkpoint(paths[0 if missing else 1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"number": {1: 2}}, "says that it is part 3 of 3, and its name says part 2 of 3"),
        ({"count": {2: 4}}, "says that it is part 3 of 4, and its name says part 3 of 3"),
        ({"total": {0: 12}}, "should hold 12"),
    ],
)
def test_parts_of_several_sets_are_refused(write: Write, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_gguf(write(**changes)[0])


def test_a_part_twice_is_refused(write: Write) -> None:
    paths = write()
    shutil.copy(paths[1], paths[2])
    with pytest.raises(CheckpointError, match=r"is part 2 of 3, and its name says part 3"):
        read_gguf(paths[0])


@pytest.mark.parametrize("name", ["model.gguf.part1of2", "model.gguf-split-a", "model.gguf.part-01"])
def test_a_piece_cut_by_bytes_is_called_that(write: Write, tmp_path: Path, name: str) -> None:
    piece = shutil.copy(write()[0], tmp_path / name)
    with pytest.raises(CheckpointError, match=r"a piece of a file that was cut by bytes; .* > model\.gguf"):
        open_checkpoint(Path(piece))


@pytest.mark.parametrize("name", ["b" * 64, "MODEL.GGUF", "model.bin", "model"])
def test_content_decides_what_a_file_is(write: Write, tmp_path: Path, name: str) -> None:
    """A blob of a cache has no suffix, and a suffix is no content."""
    whole = tmp_path / name
    writer = gguf.GGUFWriter(whole, "llama")
    for key, value in COUNTS.items():
        writer.add_uint32(f"llama.{key}", value)
    writer.add_tensor("token_embd.weight", np.ones((16, 8), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (tmp_path / "link").symlink_to(whole)
    assert open_checkpoint(whole).architecture == open_checkpoint(tmp_path / "link").architecture == "llama"


@pytest.mark.parametrize(
    ("name", "start", "said"),
    [
        ("model.gguf", b"PK\x03\x04rest", "is a pickle file"),
        ("blob", b"\x80\x04rest", "is a pickle file"),
        ("blob", b"\x02\0\0\0\0\0\0\0{}", "holds weights alone"),
        ("blob", b"abcd", "begins with b'abcd'"),
        ("empty", b"", "begins with b''"),
    ],
)
def test_what_is_no_gguf_is_named_by_its_content(tmp_path: Path, name: str, start: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(start)
    with pytest.raises(CheckpointError, match=said):
        open_checkpoint(tmp_path / name)
