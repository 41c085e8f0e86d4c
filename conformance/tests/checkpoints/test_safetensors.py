import json
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from eredu.checkpoints.safetensors_header import MAX_MARKS, read_safetensors_header
from eredu.checkpoints.weight_files import INDEX_NAME, read_directory_headers
from eredu.contract.errors import CheckpointError
from eredu.contract.message import MOST_CHARACTERS

Shapes = Mapping[str, tuple[str, tuple[int, ...]]]
PackTensors = Callable[[Shapes], bytes]


def test_header_is_what_the_library_wrote(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "b": np.zeros((3, 5), np.float16),
        "a": np.ones(7, np.int64),
        "empty": np.zeros((0, 4), np.float32),
    }
    save_file(arrays, path, metadata={"format": "np"})
    read = {tensor.name: tensor for tensor in read_safetensors_header(path).tensors}
    assert {name: tensor.shape for name, tensor in read.items()} == {name: a.shape for name, a in arrays.items()}
    assert {name: tensor.size_bytes for name, tensor in read.items()} == {name: a.nbytes for name, a in arrays.items()}
    assert (read["b"].dtype, read["a"].dtype, read["a"].file) == ("F16", "I64", "model.safetensors")


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a file"):
        read_safetensors_header(tmp_path / "none.safetensors")
    (tmp_path / "empty.safetensors").write_bytes(b"\0" * 5)
    with pytest.raises(CheckpointError, match="has 5 bytes"):
        read_safetensors_header(tmp_path / "empty.safetensors")


def test_every_truncation_is_an_error(tmp_path: Path, pack_tensors: PackTensors, llama_shapes: Shapes) -> None:
    whole = pack_tensors(llama_shapes)
    path = tmp_path / "model.safetensors"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match=r"cut short|has \d bytes"):
            read_safetensors_header(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(CheckpointError, match="goes on behind its last tensor"):
        read_safetensors_header(path)


def entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{", "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[" * 10_000, "is damaged"),
        (b"[1]", "JSON list"),
        (b'{"a": 1, "a": 1}', "occurs twice"),
        ({"a": entry(dtype="F33")}, "tensor 'a'"),
        ({"a": entry(shape=[-2])}, "tensor 'a'"),
        ({"a": entry(shape=["2"])}, "tensor 'a'"),
        ({"a": entry(shape=[3])}, "tensor 'a'"),
        ({"a": entry(data_offsets=[8, 0])}, "tensor 'a'"),
        ({"a": entry(data_offsets=[-8, 0])}, "tensor 'a'"),
        ({"a": entry(data_offsets=[0])}, "tensor 'a'"),
        ({"a": "weights"}, "tensor 'a'"),
        ({"a": entry(shape=[True, 2])}, "tensor 'a'"),
        ({"a": entry(shape=[2.0])}, "tensor 'a'"),
        ({"a": entry(shape=[1] * 64 + [2])}, "tensor 'a'"),
        ({"a": entry(shape=[1 << 31, 0], data_offsets=[0, 0])}, "tensor 'a'"),
        ({"a": entry(data_offsets=[8, 16])}, "begins at byte 8 of the data; expected 0"),
        ({"a": entry(), "b": entry(data_offsets=[4, 12])}, "begins at byte 4 of the data; expected 8"),
        ({"a": entry(data_offsets=[0, 8], shape=[2]), "b": entry(data_offsets=[8, 16])}, "cut short"),
    ],
)
def test_damaged_headers_are_errors(tmp_path: Path, header: bytes | dict[str, Any], message: str) -> None:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(8))
    with pytest.raises(CheckpointError, match=message):
        read_safetensors_header(path)


def test_huge_header_length_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"\xff" * 8 + b"{}")
    with pytest.raises(CheckpointError, match="announces a header"):
        read_safetensors_header(path)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"a":{"dtype":"F32","shape":[' + b",".join([b"9" * 400] * 5000) + b'],"data_offsets":[0,8]}}', "tensor 'a'"),
        (b'{"a":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,8]}}', "is damaged"),
        (b'{"' + b"\\u001b[31m" * 300_000 + b'":3}', "tensor 'x1b"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "is damaged"),
        (b'{"a":[' + b"1," * MAX_MARKS + b"1]}", "commas, colons and brackets"),
    ],
    ids=["shape", "digits", "name", "nesting", "numbers"],
)
def test_large_headers_cost_little_and_say_little(tmp_path: Path, raw: bytes, message: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(8))
    begun = time.process_time()
    with pytest.raises(CheckpointError) as raised:
        read_safetensors_header(path)
    said = str(raised.value).replace("\\", "")
    assert message in said
    assert len(said) <= MOST_CHARACTERS
    assert said.isprintable()
    assert time.process_time() - begun < 2


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_a_changed_byte_of_the_header_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, pack_tensors: PackTensors, llama_shapes: Shapes, data: st.DataObject
) -> None:
    raw = bytearray(pack_tensors(llama_shapes))
    (length,) = struct.unpack("<Q", raw[:8])
    raw[data.draw(st.integers(0, 7 + length))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "changed.safetensors"
    path.write_bytes(raw)
    try:
        tensors = read_safetensors_header(path).tensors
    except CheckpointError:
        return
    assert sum(tensor.size_bytes for tensor in tensors) == len(raw) - 8 - length


def shard(pack_tensors: PackTensors, directory: Path, files: Mapping[str, Shapes]) -> dict[str, str]:
    for file, shapes in files.items():
        (directory / file).write_bytes(pack_tensors(shapes))
    return {name: file for file, shapes in files.items() for name in shapes}


@pytest.fixture
def sharded(tmp_path: Path, pack_tensors: PackTensors) -> tuple[Path, Callable[[Any], None]]:
    """A directory of two shards, and a way to write its index."""
    names = shard(
        pack_tensors,
        tmp_path,
        {
            "model-00001-of-00002.safetensors": {"a": ("F32", (2,)), "b": ("BF16", (3,))},
            "model-00002-of-00002.safetensors": {"c": ("F32", (4,))},
        },
    )

    def write_index(changes: Any) -> None:
        value = {"weight_map": {**names, **changes}} if isinstance(changes, dict) else changes
        (tmp_path / INDEX_NAME).write_text(value if isinstance(value, str) else json.dumps(value))

    return tmp_path, write_index


Sharded = tuple[Path, Callable[[Any], None]]


def test_shards_are_read_with_and_without_an_index(sharded: Sharded) -> None:
    directory, write_index = sharded
    without = read_directory_headers(directory)
    write_index({})
    assert read_directory_headers(directory) == without
    tensors = [tensor for header in without for tensor in header.tensors]
    assert [(tensor.name, tensor.file[6:11]) for tensor in tensors] == [("a", "00001"), ("b", "00001"), ("c", "00002")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d": "model-00003-of-00003.safetensors"}, "lacks 1 of the 3 weight files .* model-00003"),
        ({"d": "../secret.safetensors"}, "inside the directory"),
        ({"d": "..\\secret.safetensors"}, "inside the directory"),
        ({"d": "sub/../../secret.safetensors"}, "inside the directory"),
        ({"d": "/etc/secret.safetensors"}, "inside the directory"),
        ({"d": "C:\\secret.safetensors"}, "inside the directory"),
        ({"d": "C:secret.safetensors"}, "inside the directory"),
        ({"d": "pytorch_model.bin"}, "inside the directory"),
        ({"d": "model-00001-of-00002.safetensors"}, "1 tensors that its files lack, such as 'd'"),
        ({"d": 3}, "no weight_map"),
        ("[]", "no weight_map"),
        ('{"weight_map": {}}', "no weight_map"),
        ("{", "could not be read as JSON"),
    ],
)
def test_indexes_that_lie_are_errors(sharded: Sharded, changes: Any, message: str) -> None:
    directory, write_index = sharded
    write_index(changes)
    with pytest.raises(CheckpointError, match=message):
        read_directory_headers(directory)


def test_a_file_outside_is_not_even_looked_for(sharded: Sharded, tmp_path: Path) -> None:
    directory, write_index = sharded
    inner = directory / "inner"
    inner.mkdir()
    write_index({})
    index = json.loads((directory / INDEX_NAME).read_text())
    (inner / INDEX_NAME).write_text(
        json.dumps({"weight_map": {name: f"../{file}" for name, file in index["weight_map"].items()}})
    )
    with pytest.raises(CheckpointError, match="do not use this checkpoint"):
        read_directory_headers(inner)


def test_a_tensor_in_two_files_is_an_error(sharded: Sharded, pack_tensors: PackTensors) -> None:
    directory, _ = sharded
    shard(pack_tensors, directory, {"model-old.safetensors": {"c": ("F32", (4,))}})
    with pytest.raises(CheckpointError, match="tensor 'c' twice"):
        read_directory_headers(directory)


def test_a_linked_weight_file_is_read(
    write_directory: Callable[..., Path], llama_shapes: Shapes, tmp_path: Path
) -> None:
    """Hugging Face's cache is made of links that lead out of the directory."""
    directory = write_directory()
    (directory / "model.safetensors").rename(tmp_path / "blob")
    (directory / "model.safetensors").symlink_to(tmp_path / "blob")
    assert sum(len(header.tensors) for header in read_directory_headers(directory)) == len(llama_shapes)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pytorch_model.bin", "can run code and are never opened"),
        ("consolidated.safetensors", "it holds consolidated.safetensors"),
        ("model.Q4_1.gguf", "give the path of a GGUF itself"),
        ("notes.txt", "expected the weights beside config.json"),
    ],
)
def test_directories_without_weights_say_what_they_hold(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_bytes(b"cos\nsystem\n")
    with pytest.raises(CheckpointError, match=message):
        read_directory_headers(tmp_path)
