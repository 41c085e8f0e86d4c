"""The law on a real pair: right is accepted, planted faults are rejected, evidence is kept exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from eredu_conformance.crafted import PairDirectories, crafted_pair
from eredu_validation.evidence import LEDGER_NAME, Emission, read_ledger, result_schema
from eredu_validation.measures import emissions
from eredu_validation.measures.emissions import emissions_of
from eredu_validation.session.law_run import LawRun

LawOnly = Callable[..., tuple[Any, dict[str, Any]]]


def test_a_right_pair_is_accepted(law_only: LawOnly, tmp_path: Path) -> None:
    ran, result = law_only(tmp_path / "evidence", "--tokens", "600", "--seed", "5")
    assert ran.status == 0, ran
    assert "no deviation; a TV deviation of" in ran.stdout
    law = result["law"]
    assert law["verdict"]["tokens"] >= 600
    assert sum(stratum["tokens"] for stratum in law["strata"].values()) == law["verdict"]["tokens"]
    assert {"no proposal", "offset 0", "offset 0, redrafted"} <= law["strata"].keys()
    Draft202012Validator(result_schema()).validate(law)


def test_a_planted_fault_is_rejected(law_only: LawOnly, planted: str, tmp_path: Path) -> None:
    """A right pair would be rejected here with a chance of at most 1e-5, whatever the number of tokens."""
    ran, result = law_only(tmp_path / "evidence", "--tokens", "4000", "--seed", "5", "--alpha", "1e-5")
    assert ran.status == 1, (planted, ran)
    assert "deviation found" in ran.stdout
    assert "the acceptance rule or its residual is misread" in ran.stdout
    assert result["law"]["verdict"]["tokens"] < 4000, "the run did not stop when the question was settled"
    assert result["verdict"]["exit_status"] == 1


def interrupting(monkeypatch: pytest.MonkeyPatch, tokens: int) -> None:
    """Let Ctrl-C be pressed once so many tokens are evidence."""
    taken = LawRun.run

    def interrupted(self: LawRun, ledger: Any, on_progress: Any, pool: Any) -> None:
        def press(progress: Any) -> None:
            if ledger.content.tally.tokens >= tokens:
                raise KeyboardInterrupt
            on_progress(progress)

        taken(self, ledger, press, pool)

    monkeypatch.setattr(LawRun, "run", interrupted)


def test_too_few_tokens_for_the_resolution_are_inconclusive(
    law_only: LawOnly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupting(monkeypatch, 200)
    ran, result = law_only(tmp_path / "evidence", "--resolve", "0.05", "--seed", "5")
    assert ran.status == 130
    assert result["verdict"]["conclusion"] == "inconclusive"
    assert result["verdict"]["exit_status"] == 3
    assert "more tokens" in ran.stdout
    assert "--resume" in ran.stderr
    assert read_ledger(tmp_path / "evidence" / LEDGER_NAME).tally.tokens == result["law"]["verdict"]["tokens"]


def test_a_run_that_was_interrupted_is_the_run_that_was_not(
    law_only: LawOnly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens, portions, wealth and what the bets learned: all evidence is equal, to the last bit."""
    _, unbroken = law_only(tmp_path / "whole", "--tokens", "320", "--seed", "5")
    for tokens in (70, 200):
        with monkeypatch.context() as pressed:
            interrupting(pressed, tokens)
            ran, _ = law_only(tmp_path / "parts", "--tokens", "320", "--seed", "5")
        assert ran.status == 130
    ran, resumed = law_only(tmp_path / "parts", "--tokens", "320", "--seed", "77")
    assert ran.status == 0, ran
    whole, parts = (read_ledger(tmp_path / name / LEDGER_NAME) for name in ("whole", "parts"))
    assert len(whole.batches) > 3
    assert parts.batches == whole.batches
    for result in (unbroken, resumed):
        assert result["law"]["runs"][0].pop("run")
    assert resumed["law"] == unbroken["law"]
    assert len(list((tmp_path / "parts").glob("*.npz"))) == 1


def test_resumption_refuses_another_subject(
    law_only: LawOnly, command: Callable[..., Any], pair: PairDirectories, tmp_path: Path
) -> None:
    law_only(tmp_path / "evidence", "--tokens", "40", "--seed", "5")
    ran, _ = law_only(tmp_path / "evidence", "--tokens", "80", "--temperature", "0.9")
    assert ran.status == 2
    assert "is evidence about another subject: settings.sampling was" in ran.stderr
    swapped = ("validate", str(pair.draft), "--assistant", str(pair.target), "--resume", str(tmp_path / "evidence"))
    ran = command(*swapped, "--max-tokens", "20", "--tokens", "80")
    assert ran.status == 2
    assert "drafter was" in ran.stderr
    assert "target was" in ran.stderr


def test_merging_multiplies(law_only: LawOnly, command: Callable[..., Any], tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("one", "two")]
    for seed, place in enumerate(places):
        law_only(place, "--tokens", "160", "--seed", str(seed))
    ran = command("validate", "merge", *map(str, places), "--json", str(tmp_path / "merged.json"))
    assert ran.status == 0, ran
    ledgers = [read_ledger(place / LEDGER_NAME) for place in places]
    assert f"{sum(ledger.tally.tokens for ledger in ledgers):,} tokens" in ran.stdout
    ran = command("validate", "merge", *map(str, places), "--resolve", "0.01")
    assert ran.status == 3
    ran = command("validate", "merge", str(places[0]), str(places[0]))
    assert ran.status == 2
    assert "only independent runs multiply" in ran.stderr


def test_rows_are_the_crafted_law(law_only: LawOnly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Teacher-forced rows are the table's, so nothing of what is validated has a part in them."""
    seen: list[Emission] = []

    def spy(*arguments: Any, **options: Any) -> list[Emission]:
        found = emissions_of(*arguments, **options)
        seen.extend(found)
        return found

    monkeypatch.setattr(emissions, "emissions_of", spy)
    law_only(tmp_path / "evidence", "--tokens", "60", "--seed", "5")
    made = crafted_pair("table")
    assert len(seen) >= 60
    for before, emission in zip([None, *seen], seen, strict=False):
        history = emission.recent
        np.testing.assert_allclose(emission.target, made.target.next_distribution(history), atol=1e-6)
        assert emission.draft is not None
        np.testing.assert_allclose(emission.draft, made.draft.next_distribution(history), atol=1e-6)
        if emission.position > 0:
            assert before is not None
            assert emission.recent[-1] == before.token
            assert emission.lagged is not None
            np.testing.assert_array_equal(emission.lagged, before.target)
