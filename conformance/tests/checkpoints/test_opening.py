"""A checkpoint is opened once: each file is read once in a load, and inspection and loading say the same."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from eredu.checkpoints import opening
from eredu.checkpoints.opening import open_checkpoint
from eredu.contract.errors import CheckpointError
from eredu.engine.load import load_target
from eredu_conformance.zoo import MEMBERS, Damage, Parts, write_damaged, write_head, zoo_member

_WATCHED: list[Counter[str]] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _WATCHED and isinstance(arguments[0], str):
        _WATCHED[-1][arguments[0]] += 1


sys.addaudithook(_watch)


@contextmanager
def opens_in(directory: Path) -> Iterator[Counter[str]]:
    """How often Python opens each file of a directory inside the context. MLX maps weights by itself."""
    found: Counter[str] = Counter()
    _WATCHED.append(found)
    yield found
    _WATCHED.pop()
    inside = {
        Path(name).relative_to(directory): count for name, count in found.items() if name.startswith(str(directory))
    }
    found.clear()
    found.update({str(name): count for name, count in inside.items()})


@pytest.mark.parametrize("name", MEMBERS)
def test_a_load_reads_every_file_once(name: str, tmp_path: Path) -> None:
    directory = zoo_member(name).write(tmp_path, parts=Parts.SHARDED)
    with opens_in(tmp_path) as opens:
        load_target(directory, settle=False)
    weights = {file: count for file, count in opens.items() if file.endswith(".safetensors")}
    assert weights == dict.fromkeys([file.name for file in tmp_path.glob("*.safetensors")], 1)
    assert opens["config.json"] == 1
    assert opens["model.safetensors.index.json"] == 1


@pytest.mark.parametrize("name", [name for name in MEMBERS if zoo_member(name).heads])
def test_heads_beside_a_target_are_read_once(name: str, tmp_path: Path) -> None:
    target = zoo_member(name).write(tmp_path / "target")
    head = write_head(zoo_member(name), tmp_path / "head")
    with opens_in(head) as opens:
        load_target(target, head=head, settle=False)
    assert opens == {"config.json": 1, "model.safetensors": 1}


@pytest.mark.parametrize("name", MEMBERS)
def test_inspection_reads_every_file_once(name: str, tmp_path: Path) -> None:
    directory = zoo_member(name).write(tmp_path, parts=Parts.SHARDED)
    with opens_in(tmp_path) as opens:
        open_checkpoint(directory).report()
    assert set(opens.values()) == {1}


@pytest.mark.parametrize("name", MEMBERS)
def test_inspection_and_loading_decide_alike(name: str, tmp_path: Path) -> None:
    report = open_checkpoint(zoo_member(name).write(tmp_path)).report()
    backend = load_target(tmp_path, settle=False).backend
    assert report.heads.capability == backend.mtp_capability(None)
    assert report.context_limit == backend.target.context
    assert report.vocabulary_rows == backend.target.vocabulary_size
    assert report.family == backend.target.architecture


@pytest.mark.parametrize("damage", [Damage.HEAD_HALF_ABSENT, Damage.TRUNCATED, Damage.INDEX_MISSING_FILE])
def test_inspection_and_loading_refuse_in_the_same_words(damage: Damage, tmp_path: Path) -> None:
    directory = write_damaged(zoo_member("deepseek-v3"), tmp_path, damage)
    said = []
    for read in (lambda path: open_checkpoint(path).report(), load_target):
        with pytest.raises(CheckpointError) as raised:
            read(directory)
        said.append(str(raised.value))
    assert said[0] == said[1]


def test_a_directory_of_heads_is_inspected_as_it_is_loaded(tmp_path: Path) -> None:
    for name in ("qwen3.5", "deepseek-v3", "nemotron-h"):
        report = open_checkpoint(write_head(zoo_member(name), tmp_path / name)).report()
        assert report.heads.capability.is_ready
        assert (report.layers, report.vocabulary_rows > 0) == (1, True)


def test_what_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    for name, said in (("weights.bin", "pickle"), ("model.safetensors", "weights alone"), ("other", "begins with")):
        (tmp_path / name).write_bytes(b"x" * 64)
        with pytest.raises(CheckpointError, match=said):
            opening.open_checkpoint(tmp_path / name)
    with pytest.raises(CheckpointError, match="does not exist"):
        opening.open_checkpoint(tmp_path / "nothing")
