"""A crafted pair whose law is known, planted faults, and whole command lines of `eredu validate`."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import eredu
from eredu.checkpoints.tokenizers import load_tokenizer
from eredu.commands.main import main
from eredu.engine import target_executor
from eredu.mlx import acceptance
from eredu.mlx.draws import coins
from eredu.options import GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.validation.prompts import EncodedPrompt
from eredu.validation.subject import Subject
from eredu_conformance.crafted import PairDirectories, crafted_pair
from eredu_conformance.zoo import zoo_member

TEXT = tuple(np.random.default_rng(3).integers(1, 60, size=270).tolist())
PROMPTS = (EncodedPrompt("short", TEXT[:4], ("abc",)), EncodedPrompt("long", TEXT[:40]))
PLAIN = SamplingOptions(temperature=1.0)
PARTS = ("numerics", "state", "path", "benefit")


@dataclass(frozen=True)
class Ran:
    """What one command line did."""

    status: int
    stdout: str
    stderr: str


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> PairDirectories:
    """Laws p and q over a few ids that differ everywhere."""
    return crafted_pair("table").write(tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="session")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Subject]:
    """A recurrent target with a head of its own, and a llama with itself as its assistant."""
    options = GenerationOptions(max_tokens=24, sampling=PLAIN, eos_ids=frozenset(), max_proposals=3)
    made = {}
    for name in ("qwen3.5", "llama"):
        path = zoo_member(name).write(tmp_path_factory.mktemp(name))
        tokenizer = load_tokenizer(path)
        assistant = eredu.load_assistant(path, tokenizer=tokenizer) if name == "llama" else None
        made[name] = Subject(
            model=eredu.load(path, tokenizer=tokenizer, with_heads=assistant is None, settle=False),
            assistant=assistant,
            options=options,
            schedule=MtpSchedulerOptions(),
        )
    return made


@pytest.fixture(params=["qwen3.5", "llama"])
def subject(request: pytest.FixtureRequest, subjects: dict[str, Subject]) -> Subject:
    return subjects[request.param]


@pytest.fixture
def prompts() -> tuple[EncodedPrompt, ...]:
    """A short prompt with a replay, and a longer one."""
    return PROMPTS


@pytest.fixture
def text() -> tuple[int, ...]:
    """Ids that every small model knows."""
    return TEXT


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Ran]:
    """Run `eredu ARGUMENTS` in this process, with a cache folder of its own."""
    monkeypatch.setenv("EREDU_CACHE", str(tmp_path / "cache"))

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b""), encoding="utf-8"))
        capsys.readouterr()
        status = main(list(arguments))
        printed = capsys.readouterr()
        return Ran(status, printed.out, printed.err)

    return run


@pytest.fixture
def law_only(command: Callable[..., Ran], pair: PairDirectories) -> Callable[..., tuple[Ran, dict[str, Any]]]:
    """Validate the law of the pair alone, and return its result too."""

    def run(place: Path, *arguments: str) -> tuple[Ran, dict[str, Any]]:
        result = place.parent / f"{place.name}.json"
        skips = [word for part in PARTS for word in ("--skip", part)]
        ran = command(
            *("validate", str(pair.target), "--assistant", str(pair.draft), "--resume", str(place), *skips),
            *("--max-tokens", "20", "--workers", "1", "--json", str(result), *arguments),
        )
        text = result.read_text(encoding="utf-8") if result.exists() else ""
        return ran, json.loads(text) if text else {}

    return run


def ratio_without_q(
    proposals: mx.array, draft_scores: mx.array, target_scores: mx.array, *, coin_keys: mx.array, final_keys: mx.array
) -> acceptance.Verdict:
    """Accepts where u < p."""
    return faulty(proposals, draft_scores, target_scores, coin_keys, final_keys, with_ratio=False)


def residual_is_p(
    proposals: mx.array, draft_scores: mx.array, target_scores: mx.array, *, coin_keys: mx.array, final_keys: mx.array
) -> acceptance.Verdict:
    """Replaces a rejected proposal by a draw from p."""
    return faulty(proposals, draft_scores, target_scores, coin_keys, final_keys, with_ratio=True)


def faulty(
    proposals: mx.array,
    draft_scores: mx.array,
    target_scores: mx.array,
    coin_keys: mx.array,
    final_keys: mx.array,
    *,
    with_ratio: bool,
) -> acceptance.Verdict:
    p_rows, q_rows = mx.softmax(target_scores, axis=-1), mx.softmax(draft_scores, axis=-1)
    p, q = (mx.take_along_axis(rows, proposals[:, None], axis=-1)[:, 0] for rows in (p_rows[:-1], q_rows))
    drawn = coins(coin_keys)
    accepted = mx.cumprod(((drawn * q if with_ratio else drawn) < p).astype(mx.int32)).sum()
    row = mx.minimum(accepted, proposals.shape[0] - 1)[None]
    residual = p_rows[row] if with_ratio else mx.maximum(p_rows[row] - q_rows[row], 0)
    return acceptance._verdict(accepted, residual, q, target_scores, final_keys)


FAULTS = {"ratio without q": ratio_without_q, "residual = p": residual_is_p}


@pytest.fixture(params=list(FAULTS))
def planted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fault in the acceptance of every request."""
    name: str = request.param
    monkeypatch.setattr(target_executor, "reject", FAULTS[name])
    return name
