import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eredu.checkpoints.caches import CacheKind, Rollback
from eredu.checkpoints.gguf_cursor import MAX_ITEMS
from eredu.checkpoints.gguf_header import read_gguf_header
from eredu.checkpoints.names import target_path
from eredu.checkpoints.opening import open_checkpoint
from eredu.contract.capability import MtpCapability, MtpCheckpointKind
from eredu.contract.errors import CheckpointError
from eredu.contract.message import MOST_CHARACTERS

WriteGguf = Callable[..., Path]


@pytest.fixture
def write_gguf(tmp_path: Path) -> WriteGguf:
    """Write a small GGUF with the `gguf` library: keys of the architecture, and names of further tensors."""

    def write(architecture: str = "llama", tensors: tuple[str, ...] = (), **keys: Any) -> Path:
        path = tmp_path / "model.gguf"
        writer = gguf.GGUFWriter(path, architecture)
        counts = {"block_count": 2, "embedding_length": 32, "context_length": 128, "attention.head_count": 4, **keys}
        for key, value in counts.items():
            if isinstance(value, list):
                writer.add_array(f"{architecture}.{key}", value)
            elif isinstance(value, str):
                writer.add_string(f"{architecture}.{key}", value)
            elif value is not None:
                writer.add_uint32(f"{architecture}.{key}", value)
        writer.add_array("tokenizer.ggml.tokens", ["a", "b", "é"])
        writer.add_array("tokenizer.ggml.scores", [0.5, -1.0, 2.0])
        writer.add_bool("tokenizer.ggml.add_bos_token", False)
        writer.add_float32("general.some_float", 0.25)
        writer.add_tensor(
            "token_embd.weight",
            gguf.quantize(np.ones((3, 32), np.float32), gguf.GGMLQuantizationType.Q8_0),
            raw_dtype=gguf.GGMLQuantizationType.Q8_0,
        )
        for name in ("blk.0.attn_norm.weight", *tensors):
            writer.add_tensor(name, np.ones(32, np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


def test_header_is_what_the_library_wrote(write_gguf: WriteGguf) -> None:
    path = write_gguf()
    header, reader = read_gguf_header(path), gguf.GGUFReader(path)
    own = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    assert header.metadata == own
    assert header.metadata["tokenizer.ggml.tokens"] == ["a", "b", "é"]
    assert [(t.name, t.dtype, t.size_bytes) for t in header.tensors] == [
        (t.name, t.tensor_type.name, t.n_bytes) for t in reader.tensors
    ]
    assert header.tensors[0].shape == (3, 32)


def test_report(write_gguf: WriteGguf) -> None:
    report = open_checkpoint(write_gguf()).report()
    assert (report.family, report.container, report.layers, report.hidden_size) == ("llama", "gguf", 2, 32)
    assert (report.attention_heads, report.key_value_heads, report.context_limit) == (4, 4, 128)
    assert (report.vocabulary_rows, report.parameter_count, report.size_bytes) == (3, 128, 3 * 34 + 128)
    assert report.quantization == "Q8_0 (1 of 2 tensors)"
    assert report.tied_embeddings
    assert report.rolls_back_exactly
    assert report.heads.capability == MtpCapability.unavailable()


def test_the_real_target() -> None:
    path = target_path()
    if not path.is_file():
        pytest.skip("the target is not in the cache: eredu fetch smollm2")
    report = open_checkpoint(path).report()
    assert (report.layers, report.hidden_size, report.vocabulary_rows) == (30, 576, 49152)
    assert (report.parameter_count, report.context_limit) == (134_515_008, 8192)
    assert report.quantization == "Q4_1 (210 of 272 tensors), Q8_0 (1 of 272 tensors)"
    assert report.rolls_back_exactly


@pytest.mark.parametrize(
    ("architecture", "keys", "kinds", "exact"),
    [
        ("deepseek2", {}, [CacheKind.LATENT], True),
        ("deepseek4", {}, [CacheKind.COMPRESSED], False),
        ("gemma3", {"attention.sliding_window": 64}, [CacheKind.FULL, CacheKind.WINDOW], True),
        ("nemotron_h", {"ssm.state_size": 4}, [CacheKind.FULL, CacheKind.RECURRENT], False),
    ],
)
def test_caches(
    write_gguf: WriteGguf, architecture: str, keys: dict[str, Any], kinds: list[CacheKind], exact: bool
) -> None:
    report = open_checkpoint(write_gguf(architecture, **keys)).report()
    assert [cache.kind for cache in report.caches] == kinds
    assert report.rolls_back_exactly == exact
    assert report.caches[0].rollback is (Rollback.NOT_YET if architecture == "deepseek4" else Rollback.EXACT)


def test_heads_per_layer_and_output(write_gguf: WriteGguf) -> None:
    keys = {"attention.head_count": [4, 8], "attention.head_count_kv": [0, 2]}
    report = open_checkpoint(write_gguf("nemotron_h", ("output.weight",), **keys)).report()
    assert (report.attention_heads, report.key_value_heads, report.tied_embeddings) == (8, 2, False)


@pytest.mark.parametrize(
    ("claimed", "tensors", "state"),
    [(0, (), "unavailable"), (1, (), "unavailable"), (1, ("blk.1.nextn.eh_proj.weight",), "unsupported")],
)
@pytest.mark.parametrize("architecture", ["deepseek2", "nemotron_h"])
def test_prediction_heads(
    write_gguf: WriteGguf, architecture: str, claimed: int, tensors: tuple[str, ...], state: str
) -> None:
    """No head is run from a GGUF, whatever eredu runs of the family elsewhere."""
    report = open_checkpoint(write_gguf(architecture, tensors, nextn_predict_layers=claimed)).report()
    assert report.heads.capability.state == state


def test_an_assistant_is_no_target(write_gguf: WriteGguf) -> None:
    report = open_checkpoint(write_gguf("dflash")).report()
    assert report.heads.capability == MtpCapability.unsupported(MtpCheckpointKind.SEPARATE, "dflash")
    assert not report.rolls_back_exactly


@pytest.mark.parametrize(
    ("architecture", "keys", "message"),
    [
        ("no-such", {}, "architecture 'no-such', whose caches"),
        ("llama", {"block_count": None}, "llama.block_count as None"),
        ("llama", {"block_count": 2**32 - 1}, "from 0 to 10000"),
        ("llama", {"embedding_length": "wide"}, "llama.embedding_length as 'wide'"),
    ],
)
def test_damaged_metadata(write_gguf: WriteGguf, architecture: str, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(write_gguf(architecture, **keys)).report()


@pytest.mark.parametrize("kind", ["adapter", "mmproj", "imatrix"])
def test_what_is_no_model_is_called_that(tmp_path: Path, kind: str) -> None:
    """A LoRA adapter has the architecture of its model and none of its metadata."""
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "llama")
    writer.add_type(kind)
    writer.add_tensor("blk.0.attn_q.weight.lora_a", np.ones((4, 8), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(CheckpointError, match=f"it is no model: its general.type is '{kind}'"):
        open_checkpoint(tmp_path / "other.gguf").report()


def test_a_vocabulary_alone_is_no_model(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "vocabulary.gguf", "llama")
    writer.add_block_count(32)
    writer.add_tokenizer_model("llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(CheckpointError, match="holds metadata and no weights"):
        open_checkpoint(tmp_path / "vocabulary.gguf").report()


def test_every_truncation_is_an_error(write_gguf: WriteGguf) -> None:
    path = write_gguf()
    whole, last = path.read_bytes(), read_gguf_header(path).tensors[-1].size_bytes
    for size in (*range(len(whole) - last), len(whole) - last + 1, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match=r"cut short|has \d+ bytes"):
            read_gguf_header(path)


def patched(whole: bytes, at: int, form: str, value: int) -> bytes:
    raw = bytearray(whole)
    struct.pack_into(form, raw, at, value)
    return bytes(raw)


@pytest.mark.parametrize(
    ("at", "form", "value", "message"),
    [
        (0, "<I", 0, "begins with"),
        (4, "<I", 1, "version 1"),
        (4, ">I", 3, "little-endian"),
        (8, "<Q", 2**63, "announces 9223372036854775808 tensors"),
        (16, "<Q", 2**63, "announces 9223372036854775808 metadata"),
        (24, "<Q", 2**63, "cut short"),
    ],
)
def test_numbers_that_lie(write_gguf: WriteGguf, at: int, form: str, value: int, message: str) -> None:
    path = write_gguf()
    path.write_bytes(patched(path.read_bytes(), at, form, value))
    with pytest.raises(CheckpointError, match=message):
        read_gguf_header(path)


@pytest.mark.parametrize(
    ("after", "skip", "form", "value", "message"),
    [
        (b"token_embd.weight", 0, "<I", 5, "5 dimensions"),
        (b"token_embd.weight", 4, "<Q", 33, "blocks of 32 do not divide"),
        (b"token_embd.weight", 4, "<Q", 2**40, "cut short"),
        (b"token_embd.weight", 20, "<I", 999, "GGML type 999, which eredu does not know"),
        (b"token_embd.weight", 24, "<Q", 2**40, "cut short"),
        (b"tokenizer.ggml.add_bos_token", 0, "<I", 77, "unknown type 77"),
        (b"tokenizer.ggml.scores", 8, "<Q", 2**60, "items of 'tokenizer.ggml.scores'"),
        (b"tokenizer.ggml.tokens", 8, "<Q", 2**60, "items of 'tokenizer.ggml.tokens'"),
        (b"tokenizer.ggml.tokens", 24, "<B", 0xFF, "not UTF-8"),
    ],
)
def test_fields_that_lie(write_gguf: WriteGguf, after: bytes, skip: int, form: str, value: int, message: str) -> None:
    path = write_gguf()
    whole = path.read_bytes()
    path.write_bytes(patched(whole, whole.index(after) + len(after) + skip, form, value))
    with pytest.raises(CheckpointError, match=message):
        read_gguf_header(path)


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_a_changed_byte_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "changed.gguf"
    raw = bytearray(MINIMAL)
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    try:
        read_gguf_header(path)
    except CheckpointError:
        return


def spelled(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


KEYS = (
    spelled("general.architecture") + struct.pack("<I", 8) + spelled("llama")
    + spelled("nested") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ2I", 4, 2, 7, 8)
)  # fmt: skip
HEAD = b"GGUF" + struct.pack("<IQQ", 3, 1, 2) + KEYS + spelled("t") + struct.pack("<IQIQ", 1, 8, 0, 0)
MINIMAL = HEAD + bytes(-len(HEAD) % 32) + bytes(32)


@pytest.mark.parametrize(("name", "other"), [(b"nested", b"general.architecture"), (b"llama", b"lla\xffa")])
def test_names_that_clash_or_are_no_text(tmp_path: Path, name: bytes, other: bytes) -> None:
    path = tmp_path / "clash.gguf"
    path.write_bytes(MINIMAL.replace(struct.pack("<Q", len(name)) + name, struct.pack("<Q", len(other)) + other))
    with pytest.raises(CheckpointError, match=r"occurs twice|not UTF-8"):
        read_gguf_header(path)


def test_the_minimal_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "minimal.gguf"
    path.write_bytes(MINIMAL)
    header = read_gguf_header(path)
    assert header.metadata == {"general.architecture": "llama", "nested": [[7, 8]]}
    assert [(tensor.name, tensor.shape) for tensor in header.tensors] == [("t", (8,))]


def entry(key: str, kind: int, item: int, length: int) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + spelled(key)
    return head + (struct.pack("<IIQ", kind, item, length) if kind == 9 else struct.pack("<IQ", kind, length))


@pytest.mark.parametrize(
    ("start", "bytes_behind"),
    [
        (entry("numbers", 9, 0, 400_000_000), 400_000_000),
        (entry("doubles", 9, 12, 50_000_000), 400_000_000),
        (entry("texts", 9, 8, 400_000_000), 3_200_000_000),
        (entry("arrays", 9, 9, 30_000_000), 400_000_000),
        (entry("text", 8, 0, 400_000_000), 400_000_000),
        (b"GGUF" + struct.pack("<IQQ", 3, 10_000_000, 0), 400_000_000),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 10_000_000), 400_000_000),
    ],
    ids=["numbers", "doubles", "texts", "arrays", "text", "tensors", "values"],
)
def test_what_a_sparse_file_announces_is_not_built(tmp_path: Path, start: bytes, bytes_behind: int) -> None:
    path = tmp_path / "sparse.gguf"
    path.write_bytes(start)
    os.truncate(path, len(start) + bytes_behind)
    tracemalloc.start()
    with pytest.raises(CheckpointError, match="eredu reads"):
        read_gguf_header(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_many_arrays_add_up_to_one_bound(tmp_path: Path) -> None:
    """No single array is too long here."""
    path = tmp_path / "sparse.gguf"
    once = struct.pack("<IIQ", 9, 0, MAX_ITEMS // 2) + bytes(MAX_ITEMS // 2)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 3) + b"".join(spelled(key) + once for key in "abc"))
    with pytest.raises(CheckpointError, match="eredu reads"):
        read_gguf_header(path)


@pytest.mark.parametrize(("second", "message"), [(0, "overlap"), (36, "no multiple of 32"), (64, None)])
def test_tensors_lie_apart_and_aligned(tmp_path: Path, second: int, message: str | None) -> None:
    infos = b"".join(
        spelled(name) + struct.pack("<IQIQ", 1, 8, 0, offset) for name, offset in (("t", 0), ("u", second))
    )
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 2) + KEYS + infos
    path = tmp_path / "two.gguf"
    path.write_bytes(head + bytes(-len(head) % 32) + bytes(128))
    if message is None:
        assert [tensor.offset % 32 for tensor in read_gguf_header(path).tensors] == [0, 0]
        return
    with pytest.raises(CheckpointError, match=message):
        read_gguf_header(path)


def test_messages_are_one_line_of_bounded_length(tmp_path: Path) -> None:
    name = "n\n\x1b[31m\u202e" * 100_000
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 2) + KEYS + struct.pack("<Q", len(name.encode())) + name.encode()
    path = tmp_path / "long.gguf"
    path.write_bytes(head + struct.pack("<IQIQ", 9, 8, 0, 0) + bytes(64))
    with pytest.raises(CheckpointError) as raised:
        read_gguf_header(path)
    said = str(raised.value)
    assert len(said) <= MOST_CHARACTERS
    assert said.startswith(str(path))
    assert said.endswith("fetch or convert the file again")
    assert said.isprintable()
