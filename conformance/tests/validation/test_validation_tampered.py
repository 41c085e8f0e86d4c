"""Tampered checkpoints: each is refused, or accepted as what it is, lossless and perhaps useless."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eredu_conformance.zoo import Damage, write_damaged, zoo_member

Command = Callable[..., Any]
HEADS = (Damage.HEAD_ZERO, Damage.HEAD_CONSTANT, Damage.HEAD_NAN, Damage.HEAD_HALF_ABSENT, Damage.HEAD_WRONG_SHAPE)


@pytest.mark.parametrize("damage", [*HEADS, Damage.HEAD_ABSENT, Damage.TRUNCATED])
def test_a_dead_or_incomplete_head_is_refused(command: Command, tmp_path: Path, damage: Damage) -> None:
    path = write_damaged(zoo_member("qwen3.5"), tmp_path / "target", damage)
    ran = command("validate", str(path), "--tokens", "10")
    assert ran.status == 2, ran
    assert ran.stdout == ""
    assert ran.stderr.count("eredu: error: ") == 1
    assert "nobody foresaw" not in ran.stderr


def test_a_random_head_is_lossless(command: Command, tmp_path: Path) -> None:
    """The zoo's weights are random, its head's too: nothing deviates, and the benefit says what it is worth."""
    path = zoo_member("qwen3.5").write(tmp_path / "target")
    file, prompts = tmp_path / "result.json", tmp_path / "prompts.jsonl"
    prompts.write_text('{"tokens": [1, 2, 3]}\n{"tokens": [5, 4, 9, 17, 30, 31, 2, 8]}\n', encoding="utf-8")
    ran = command(
        *("validate", str(path), "--tokens", "40", "--max-tokens", "10", "--seed", "3"),
        *("--prompts", str(prompts), "--json", str(file)),
    )
    assert ran.status == 0, ran
    parts = json.loads(file.read_text(encoding="utf-8"))["parts"]
    assert parts["static"]["kind"] == "embedded"
    assert parts["static"]["faults"] == []
    assert parts["benefit"]["acceptance"][0] < 0.9
    assert "tokens a round" in ran.stdout


def test_an_assistant_with_a_permuted_tokenizer_is_refused(command: Command, tmp_path: Path) -> None:
    target, draft = (zoo_member("llama").write(tmp_path / name) for name in ("target", "draft"))
    tokenizer = draft / "tokenizer.json"
    content = json.loads(tokenizer.read_text(encoding="utf-8"))
    vocabulary = content["model"]["vocab"]
    first, second = sorted(vocabulary, key=vocabulary.__getitem__)[3:5]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    tokenizer.write_text(json.dumps(content), encoding="utf-8")
    ran = command("validate", str(target), "--assistant", str(draft), "--tokens", "10")
    assert ran.status == 2, ran
    assert "tokenizer" in ran.stderr
    assert ran.stdout == ""
