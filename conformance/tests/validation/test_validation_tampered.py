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
from eredu_conformance.zoo.tampering import Tampering, write_tampered

Command = Callable[..., Any]
Tamper = Callable[[Tampering], Path]
TRAINED = "tiny-qwen3.5"


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
    refused("read hidden states of 128 numbers, and the target has 192", TRAINED, "--head", "tiny-deepseek-v3")


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
