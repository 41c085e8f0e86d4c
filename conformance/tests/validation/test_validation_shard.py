"""Ranks that hold one target together: outputs and evidence are those of one process, and what cannot be is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from eredu.contract.errors import CapabilityError
from eredu.engine.checkpoint import load_checkpoint
from eredu.mlx.adapter import Split, confirm_split, load_directory
from eredu_conformance.zoo import Precision, zoo_member
from eredu_validation.evidence import LEDGER_NAME, read_ledger

ARGUMENTS = ("--max-tokens", "8", "--seed", "5", "--batch", "1")


@pytest.fixture
def models(tmp_path: Path) -> tuple[str, ...]:
    """A target of gated delta and attention layers with a head, its output projection not tied, and two prompts."""
    prompts = tmp_path / "prompts.jsonl"
    lines = [{"tokens": [5, 6, 7, 8], "name": "a"}, {"tokens": [9, 6, 17, 8, 30, 31], "name": "b"}]
    prompts.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return str(zoo_member("qwen3.5").write(tmp_path / "target")), "--prompts", str(prompts)


@pytest.mark.parametrize("kind", ["tensor", "pipeline"])
@pytest.mark.nightly  # in every run, two ranks have the evidence of one process in `test_validation_ranks`
def test_a_shared_target_gives_the_evidence_of_a_whole_one(
    launch: Callable[..., Any], command: Callable[..., Any], models: tuple[str, ...], tmp_path: Path, kind: str
) -> None:
    """A pipeline computes every layer as one process does; cut layers add in another order."""
    launched = launch(2, *ARGUMENTS, "--tokens", "16", "--shard", kind, models=models)
    assert launched.stdout.count("no deviation; a TV deviation of") == 1, launched
    skips = [word for part in ("numerics", "state", "path", "benefit") for word in ("--skip", part)]
    ran = command("validate", *models, *skips, *ARGUMENTS, "--tokens", "16", "--resume", str(tmp_path / "one"))
    assert ran.status == 0, ran
    shared, whole = (read_ledger(tmp_path / name / LEDGER_NAME) for name in ("ranks", "one"))
    assert shared.header.identity.settings["shard"] == f"{kind} over 2 ranks"
    assert [tokens for tokens, _ in shared.path] == [tokens for tokens, _ in whole.path]
    if kind == "pipeline":
        assert shared.batches == whole.batches
    else:
        assert [e for _, e in shared.path] == pytest.approx([e for _, e in whole.path], abs=1e-2)


@pytest.mark.nightly
def test_a_lost_share_ends_with_the_evidence_so_far(launch: Callable[..., Any], models: tuple[str, ...]) -> None:
    launched = launch(2, *ARGUMENTS, "--tokens", "32", "--shard", "tensor", models=models, dying=1)
    assert "a rank that holds a part of the target is lost" in " ".join(launched.stderr.split())
    assert "inconclusive: needs about" in launched.stdout
    assert len(launched.ledger) == 2, "two portions"


@pytest.mark.parametrize(
    ("name", "kind"), [("llama", "pipeline"), ("nemotron-h", "tensor"), ("nemotron-h", "pipeline")]
)
def test_a_family_that_cannot_be_split_so_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    with pytest.raises(CapabilityError, match=f"mlx-lm has no {kind} split for"):
        load_directory(zoo_member(name).write(tmp_path), split=Split(kind, mx.distributed.init()))


def test_a_pipeline_passes_on_the_embeddings_type_or_is_refused(tmp_path: Path) -> None:
    """mlx-lm receives into an array of the embedding's type, and wider layers would be misread without an error."""
    split = Split("pipeline", mx.distributed.init())
    place = zoo_member("qwen3.5").write(tmp_path, precision=Precision.BFLOAT16)
    mixed, _ = load_directory(place, apart=lambda name: name.startswith("mtp."), dtype="float32", split=split)
    with pytest.raises(CapabilityError, match="give another type than its embedding's"):
        confirm_split(mixed, split)
    assert load_checkpoint(place, tokenizer=None, dtype="float32", split=split).heads is not None


def test_a_gguf_is_not_split(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF\x03" + bytes(19))  # version 3, and nothing in it
    with pytest.raises(CapabilityError, match="no directory of SafeTensors"):
        load_checkpoint(file, tokenizer=None, split=Split("tensor", mx.distributed.init()))
