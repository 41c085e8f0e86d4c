"""The parts beside the law: what each measures on a right pair, and that a planted fault is seen by its part."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from eredu.contract.executor import CommitPlan
from eredu.contract.options import SamplingOptions
from eredu.engine.executor import MlxExecutor
from eredu.engine.sequence import MlxSequence
from eredu_conformance.crafted import PairDirectories
from eredu_validation.measures.benefit import BenefitReport, cost_curve, measure_benefit
from eredu_validation.measures.numerics import audit_numerics, compare
from eredu_validation.measures.parts import Parts
from eredu_validation.measures.prompts import EncodedPrompt
from eredu_validation.measures.state import check_state
from eredu_validation.measures.static_checks import inspect_subject, look_at_drafter
from eredu_validation.measures.subject import Subject
from eredu_validation.session.result import validation_schema, whole_result

PLAIN = SamplingOptions(temperature=1.0)


def test_numerics_of_a_right_target(subject: Subject, text: tuple[int, ...]) -> None:
    audit = audit_numerics(subject.target, [text], PLAIN, [2, 4])
    assert [each.name for each in audit.differences[:2]] == ["K = 1", "K = 3"]
    assert audit.noise < 1e-3
    assert 1e-6 <= audit.tolerance < 1e-3
    assert audit.sentence.startswith("K-wide forwards")


def test_numerics_see_what_moved() -> None:
    single = mx.array([[0.0, 1.0, 1.01], [3.0, 0.0, -np.inf]])
    other = mx.array([[0.0, 1.02, 1.01], [3.0, 0.0, -np.inf]])
    found = compare("moved", single, other, sampling=PLAIN)
    assert not found.bitwise_equal
    assert found.max_logit == pytest.approx(0.02, abs=1e-6)
    assert found.argmax_moves == pytest.approx((0.01,), abs=1e-6)
    assert found.noises == pytest.approx((0.02, 0.0), abs=1e-6)
    p, q = (np.exp(row) / np.exp(row).sum() for row in (np.array([0, 1, 1.01]), np.array([0, 1.02, 1.01])))
    assert found.max_variation == pytest.approx(float(np.abs(p - q).sum() / 2), rel=1e-4)
    same = compare("same", single, single, sampling=PLAIN)
    assert same.bitwise_equal
    assert same.max_variation == 0


def test_state_of_a_right_pair(subject: Subject, text: tuple[int, ...]) -> None:
    report = check_state(subject, text, tolerance=1e-5)
    assert {row.accepted for row in report.rows} >= {0, 1, subject.depth}
    assert {row.length for row in report.rows} >= {5, 33, 255}
    assert report.violations == ()
    assert report.drafter_strays == ()


def test_state_sees_a_missed_rollback(subject: Subject, monkeypatch: pytest.MonkeyPatch, text: tuple[int, ...]) -> None:
    committed = MlxExecutor.commit

    def forgets(self: MlxExecutor, sequence: MlxSequence, plan: CommitPlan, branch: Any) -> Any:
        longer = CommitPlan(
            kept=min(plan.kept + 1, sequence.target.length - len(sequence.tokens) + 1), tokens=plan.tokens
        )
        if longer.kept == plan.kept:
            return committed(self, sequence, plan, branch)
        result = committed(self, sequence, longer, branch)
        sequence.target.batch._length -= 1
        return result

    monkeypatch.setattr(MlxExecutor, "commit", forgets)
    report = check_state(subject, text, tolerance=1e-5)
    assert report.violations
    assert "leave another state" in report.sentence


def test_statics_of_right_and_dead_drafters(
    subjects: dict[str, Subject], monkeypatch: pytest.MonkeyPatch, text: tuple[int, ...]
) -> None:
    report = inspect_subject(subjects["qwen3.5"], text)
    assert report.kind == "embedded"
    assert report.sanity is not None
    assert report.sanity.reads_hidden is True
    assert report.faults == ()
    separate = inspect_subject(subjects["llama"], text).sanity
    assert separate is not None
    assert separate.reads_hidden is None
    heads = subjects["qwen3.5"].heads
    assert heads is not None
    deaf = heads.step
    monkeypatch.setattr(
        type(heads), "step", lambda self, stage, hidden, tokens, cache: deaf(stage, hidden * 0, tokens, cache)
    )
    assert look_at_drafter(subjects["qwen3.5"], text[:20]).faults == ("it does not read the target's hidden state",)
    monkeypatch.setattr(type(heads), "step", lambda self, stage, hidden, tokens, cache: mx.zeros_like(hidden))
    assert len(look_at_drafter(subjects["qwen3.5"], text[:20]).faults) == 3


def test_the_cost_curve_is_tokens_over_seconds() -> None:
    curve = cost_curve((0.5, 0.25), (1.0, 1.2, 1.4))
    assert [point.tokens_per_round for point in curve] == [1, 1.5, 1.75]
    assert [point.speed for point in curve] == pytest.approx([1, 1.5 / 1.2, 1.75 / 1.4])


@pytest.mark.parametrize(
    ("rounds_s", "speed", "words"),
    [
        ((1.0, 1.2, 1.3), 1.2, "; K = 2 is the best, with 1.35 times by what rounds cost"),
        ((1.0, 1.2, 1.3), 0.9, "Warning: on these outputs it lost; is the machine busy?"),
        ((1.0, 1.1, 1.9), 1.1, "; K = 1 is best, with 1.36 times by what rounds cost"),
        ((1.0, 1.1, 1.9), 0.9, "Warning: speculation loses with the K that was asked for"),
        (
            (1.0, 1.9, 2.9),
            0.6,
            "Warning: speculation loses on this machine at every K, by what rounds cost; decode plainly",
        ),
    ],
)
def test_the_benefit_says_which_k_pays(rounds_s: tuple[float, ...], speed: float, words: str) -> None:
    acceptance = (0.5, 0.25)
    report = BenefitReport(
        acceptance=acceptance,
        tokens_per_round=1.75,
        asked=2,
        plain_tokens_per_s=100.0,
        tokens_per_s=100.0 * speed,
        curve=cost_curve(acceptance, rounds_s),
    )
    assert report.sentence.startswith(
        f"the first proposal stands 50% of the time, 1.75 tokens a round, {speed:.2f} times"
    )
    assert report.sentence.endswith(words)


def test_the_benefit_of_a_perfect_assistant(subjects: dict[str, Subject], prompts: tuple[EncodedPrompt, ...]) -> None:
    report = measure_benefit(subjects["llama"], prompts, seed=1, max_tokens=24)
    assert report.acceptance[0] == 1
    assert report.tokens_per_round > 3
    assert len(report.curve) == len(report.acceptance) + 1
    assert report.plain_tokens_per_s > 0


class Page(HTMLParser):
    """Counts what a page is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attrs:
            if name in {"src", "href", "xlink:href", "data"} and not (value or "").startswith("#"):
                self.fetched.append(value or "")


def test_everything_together(command: Callable[..., Any], pair: PairDirectories, tmp_path: Path) -> None:
    """All parts, JSON by its schema, and a report that fetches nothing and holds every plot."""
    pytest.importorskip("matplotlib")
    files = ("--json", str(tmp_path / "result.json"), "--html", str(tmp_path / "report.html"))
    models = ("validate", str(pair.target), "--assistant", str(pair.draft))
    ran = command(*models, "--tokens", "60", "--max-tokens", "15", "--seed", "5", *files)
    assert ran.status == 0, ran
    for part in ("static:", "numerics:", "state:", "path:", "benefit:", "law:"):
        assert part in ran.stdout
    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    Draft202012Validator(validation_schema()).validate(result)
    assert result["law"]["terms"]["tolerance"] == result["parts"]["numerics"]["tolerance"]
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert page.tags["svg"] == 5
    assert page.tags.get("script", 0) == 0
    assert page.fetched == []
    assert f"N{result['verdict']['text'][1:]}." in text


def test_a_violation_is_the_verdict_whatever_the_law_says() -> None:
    law = {"verdict": {"conclusion": "no deviation", "exit_status": 0, "text": "no deviation; and so on"}}
    right = Parts({"state": {"text": "15 forced commits", "violations": 0}})
    wrong = Parts({**right.found, "path": {"text": "2 differ beyond the noise", "violations": 2}})
    assert whole_result(law, right.found, right.violations)["verdict"] == law["verdict"]
    verdict = whole_result(law, wrong.found, wrong.violations)["verdict"]
    assert verdict["exit_status"] == 1
    assert verdict["text"] == "deviation found: 2 differ beyond the noise. By the law: no deviation; and so on"
