"""Tampered checkpoints: each is refused, or accepted as what it is, lossless and perhaps useless.

The small trained checkpoint is tampered with where a head must be worth something before; the README of
`eredu_validation` has the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eredu.checkpoints.names import resolve_checkpoint
from eredu_conformance.zoo import Damage, write_damaged, zoo_member
from eredu_conformance.zoo.tampering import Tampering, write_tampered

Command = Callable[..., Any]
Tamper = Callable[[Tampering], Path]
TRAINED = "tiny-qwen3.5"
HEADS = (Damage.HEAD_ZERO, Damage.HEAD_CONSTANT, Damage.HEAD_NAN, Damage.HEAD_HALF_ABSENT, Damage.HEAD_WRONG_SHAPE)


@pytest.fixture
def tamper(tmp_path: Path) -> Tamper:
    """The trained checkpoint, copied and tampered with."""
    return lambda what: write_tampered(resolve_checkpoint(TRAINED), tmp_path / what, what)


@pytest.fixture
def refused(command: Command) -> Callable[..., None]:
    def check(said: str, *arguments: str) -> None:
        ran = command("validate", *arguments, "--tokens", "10")
        assert ran.status == 2, ran
        assert ran.stdout == ""
        assert ran.stderr.count("eredu: error: ") == 1
        assert said in ran.stderr
        assert "nobody foresaw" not in ran.stderr

    return check


@pytest.fixture
def accepted(command: Command, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Validate law and benefit on one short prompt; return the benefit of what must be lossless."""

    def check(*arguments: str) -> dict[str, Any]:
        file, prompts = tmp_path / "result.json", tmp_path / "prompts.jsonl"
        prompts.write_text('{"prompt": "Tell a story."}\n', encoding="utf-8")
        skips = [word for part in ("numerics", "state", "path") for word in ("--skip", part)]
        goal = ("--tokens", "24", "--max-tokens", "24", "--seed", "3", "--workers", "1", "--prompts", str(prompts))
        ran = command("validate", *arguments, *goal, *skips, "--json", str(file))
        assert ran.status == 0, ran
        result = json.loads(file.read_text(encoding="utf-8"))
        assert result["verdict"]["conclusion"] == "no deviation"
        assert result["parts"]["benefit"]["text"] in " ".join(ran.stdout.split())
        benefit: dict[str, Any] = result["parts"]["benefit"]
        return benefit

    return check


def test_a_zero_head_is_refused(refused: Callable[..., None], tamper: Tamper) -> None:
    refused("was never trained", str(tamper(Tampering.ZERO_HEAD)))


def test_norms_that_were_shifted_twice_are_refused(refused: Callable[..., None], tamper: Tamper) -> None:
    """The checkpoint states its wiring and is loaded without a probe, so this is found by the statics."""
    refused("its norms were shifted twice", str(tamper(Tampering.NORM_SHIFT)))


def test_another_order_of_the_vocabulary_is_refused(refused: Callable[..., None], tamper: Tamper) -> None:
    draft = tamper(Tampering.PERMUTED_TOKENIZER)
    refused("the first difference is id 259", TRAINED, "--assistant", str(draft))


def test_a_head_of_another_family_is_refused(refused: Callable[..., None]) -> None:
    refused("lacks layer.linear_attn", TRAINED, "--head", "tiny-deepseek-v3")


@pytest.mark.parametrize(
    "what", [Tampering.FOREIGN_HEAD, pytest.param(Tampering.RANDOM_HEAD, marks=pytest.mark.nightly)]
)
def test_a_head_that_does_not_belong_to_its_target_is_lossless_and_useless(
    accepted: Callable[..., dict[str, Any]], tamper: Tamper, what: Tampering
) -> None:
    benefit = accepted(str(tamper(what)))
    assert benefit["acceptance"][0] < 0.3
    assert benefit["recommended"] == 0
    assert "Warning: speculation loses on this machine at every K" in benefit["text"]


@pytest.mark.nightly
def test_a_head_of_four_bits_is_lossless_and_still_of_use(
    accepted: Callable[..., dict[str, Any]], tamper: Tamper
) -> None:
    benefit = accepted(TRAINED, "--head", str(tamper(Tampering.FOUR_BIT_HEAD)))
    assert benefit["acceptance"][0] > 0.35


@pytest.mark.nightly
def test_a_vocabulary_in_another_order_everywhere_is_lossless(
    accepted: Callable[..., dict[str, Any]], tamper: Tamper
) -> None:
    """Target and head agree on it, so what comes out is nonsense, and speculation changes nothing of it."""
    accepted(str(tamper(Tampering.PERMUTED_TOKENIZER)))


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
        *("validate", str(path), "--tokens", "40", "--max-tokens", "10", "--seed", "3", "--workers", "1"),
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
