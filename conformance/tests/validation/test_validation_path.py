"""Paths: near-ties are told from faults by their margin, and by whether they move with K."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from eredu.mlx.rows import process_rows
from eredu.prepared import PreparedRequest
from eredu_validation.measures.divergence import Divergence, OtherDepth, noise_explains, other_depths
from eredu_validation.measures.emissions import request_seed
from eredu_validation.measures.path import SLACK, PathReport, check_path
from eredu_validation.measures.plain_rows import Text, read_target
from eredu_validation.measures.prompts import EncodedPrompt
from eredu_validation.measures.subject import Subject
from eredu_validation.report.html_tables import part_table
from eredu_validation.session.result import validation_schema

Prompts = tuple[EncodedPrompt, ...]
Check = Callable[..., PathReport]
TIE = 10
"""Output position at which a tie is planted."""


@pytest.fixture
def check(subject: Subject, prompts: Prompts) -> Check:
    return lambda noise: check_path(subject, prompts, noise=noise, seed=1, max_tokens=24, models="--model x")


@pytest.fixture
def llama(subjects: dict[str, Subject]) -> Subject:
    """A target that accepts all of its assistant's proposals, so that rounds end at multiples of K + 1."""
    return subjects["llama"]


def plant(monkeypatch: pytest.MonkeyPatch, change: Callable[[mx.array], mx.array]) -> None:
    """Change the processed rows of verifications that hold proposals: plain decoding has none and stays right."""

    def changed(logits: mx.array, *arguments: Any, **options: Any) -> mx.array:
        rows = process_rows(logits, *arguments, **options)
        return change(rows) if rows.shape[0] > 1 else rows

    monkeypatch.setattr("eredu.engine.verification.process_rows", changed)


def next_id(rows: mx.array) -> mx.array:
    return mx.concatenate([rows[:, -1:], rows[:, :-1]], axis=-1)


def wrong_bonus(rows: mx.array) -> mx.array:
    return mx.concatenate([rows[:-1], next_id(rows[-1:])])


def test_path_of_a_right_pair(check: Check) -> None:
    report = check(1e-4)
    assert report.outputs == 4
    assert report.divergences == ()
    assert report.sentence == "4 of 4 greedy and coupled outputs are plain decoding's (96 tokens)"


def test_a_wrong_token_is_a_violation(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, next_id)
    report = check(1e-4)
    assert report.violations
    first = report.violations[0]
    assert first.margin is not None
    assert first.margin > report.noise
    assert not first.moves
    replayed = [each for each in report.violations if each.prompt == "short"]
    assert replayed
    assert replayed[0].replay.startswith("eredu generate --model x --acceptance coupled --seed ")
    assert replayed[0].replay.endswith(" abc")
    assert "differ as no noise explains" in report.sentence


@pytest.mark.nightly
def test_what_stays_within_the_noise_is_a_near_tie(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, next_id)
    report = check(1e3)
    assert report.divergences
    assert report.violations == ()
    assert "near-ties" in report.sentence


def test_a_fault_of_rounds_moves_with_k(llama: Subject, prompts: Prompts, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the noise: the wrong token comes at the end of each round, wherever that is."""
    plant(monkeypatch, wrong_bonus)
    report = check_path(llama, prompts, noise=1e3, seed=1, max_tokens=24, models="")
    first = report.violations[0]
    assert first.position == llama.depth
    assert [(other.proposals, other.position) for other in first.others] == [(1, 1), (4, 4)]
    assert first.moves
    assert "and elsewhere with another K" in report.sentence
    schema = validation_schema()["properties"]["parts"]["properties"]["path"]
    Draft202012Validator(schema).validate(json.loads(json.dumps(report.to_json())))
    table = part_table("path", report.to_json())
    assert "1 (K = 1), 4 (K = 4)" in table
    assert "violation" in table


def test_a_tie_of_the_text_stays_where_it_is(llama: Subject, prompts: Prompts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two best ids of one row are exchanged, whatever verification holds it: what a tie in the noise looks like."""
    row = row_before(llama, prompts[0], TIE)
    best, second = np.argsort(-np.array(row))[:2].tolist()
    margin = float(row[best] - row[second])

    def exchange(rows: mx.array) -> mx.array:
        here = mx.abs(rows - row).max(axis=-1, keepdims=True) < 1e-3
        other = rows[:, :]
        other[:, best], other[:, second] = rows[:, second], rows[:, best]
        return mx.where(here, other, rows)

    plant(monkeypatch, exchange)
    found = {
        share: check_path(llama, prompts[:1], noise=share * margin / SLACK, seed=1, max_tokens=24, models="")
        for share in (2.0, 0.5)
    }
    for report in found.values():
        (divergence,) = report.divergences
        assert (divergence.rule, divergence.position) == ("greedy", TIE)
        assert (divergence.plain, divergence.speculative) == (best, second)
        assert divergence.margin == pytest.approx(margin, abs=1e-4)
        assert [other.position for other in divergence.others] == [TIE, TIE]
    assert found[2.0].violations == ()
    assert len(found[0.5].violations) == 1


def row_before(subject: Subject, prompt: EncodedPrompt, position: int) -> mx.array:
    """The greedy scores that plain decoding's token at a position was the argmax of, shape (vocabulary,)."""
    options = replace(
        subject.options,
        sampling=replace(subject.options.sampling, temperature=0.0),
        max_tokens=24,
        seed=request_seed(1, 0, 0),
    )
    output = subject.decode([PreparedRequest(prompt=prompt.tokens, options=options)], plain=True).results[0].tokens
    logits = read_target(subject.target, Text(prompt.tokens, output)).logits
    return process_rows(logits, options.sampling)[position]


@pytest.mark.parametrize(
    ("position", "margin", "others", "allowed", "explained"),
    [
        (7, 0.01, [], 0.1, True),
        (7, 0.2, [], 0.1, False),
        (7, None, [], 0.1, False),
        (7, 0.0, [], 0.0, False),
        (7, 0.01, [(7, 0.01), (None, None)], 0.1, True),
        (7, 0.01, [(None, None), (9, 0.05)], 0.1, True),
        (7, 0.01, [(None, None), (9, 0.5)], 0.1, False),
        (7, 0.01, [(7, 0.01), (3, 0.05)], 0.1, True),
        (7, 0.01, [(9, 0.01), (3, 0.05)], 0.1, False),
    ],
)
def test_what_noise_explains(
    position: int, margin: float | None, others: list[tuple[Any, Any]], allowed: float, explained: bool
) -> None:
    found = Divergence(
        rule="greedy",
        proposals=2,
        prompt="a",
        seed=0,
        position=position,
        plain=1,
        speculative=2,
        margin=margin,
        others=tuple(OtherDepth(proposals=1, position=place, margin=gap) for place, gap in others),
        near_tie=False,
        replay="",
    )
    assert noise_explains(found, allowed=allowed) is explained


def test_other_depths_are_those_that_the_drafter_can_do(subjects: dict[str, Subject]) -> None:
    assert other_depths(subjects["llama"]) == [1, 4]
    assert other_depths(subjects["llama"].with_options(max_proposals=1)) == [2, 3]
    capped = subjects["qwen3.5"]
    assert capped.heads is not None
    assert all(depth <= capped.heads.traits.max_proposals for depth in other_depths(capped))
