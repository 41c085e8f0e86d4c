"""Verdicts in words, their exit statuses, and the result's schema."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import numpy as np
import pytest

from eredu.contract.errors import EvidenceError
from eredu_validation.evidence import (
    Columns,
    Conclusion,
    Emission,
    Evidence,
    Ledger,
    Stratum,
    SubjectIdentity,
    Terms,
    columns_of,
    judge,
    merge,
    result_of_merged,
    result_of_run,
    result_schema,
)
from eredu_validation.evidence.result import thinned
from eredu_validation.evidence.verdict import e_value_text, round_up

TERMS = Terms(alpha=1e-4)


def taken(columns: Columns, terms: Terms = TERMS) -> Evidence:
    evidence = Evidence(terms, seeds=(5,))
    evidence.take(columns)
    return evidence


def test_no_deviation_says_what_would_have_been_seen(right: Columns) -> None:
    evidence = taken(right)
    verdict = judge(evidence.tally, TERMS, crossing=evidence.crossing, resolve=0.2)
    assert verdict.conclusion is Conclusion.NO_DEVIATION
    assert verdict.conclusion.exit_status == 0
    assert verdict.resolved == evidence.resolved
    assert verdict.text == (
        f"no deviation; a TV deviation of {round_up(verdict.resolved):g} per token would have been reported with "
        "probability ≥ 0.99"
    )


def test_a_deviation_says_how_sure_where_and_what(wrong: Columns) -> None:
    evidence = taken(wrong)
    assert evidence.crossing is not None
    verdict = judge(evidence.tally, TERMS, crossing=evidence.crossing)
    assert verdict.conclusion is Conclusion.DEVIATION
    assert verdict.conclusion.exit_status == 1
    assert verdict.text.startswith(f"deviation found, e-value {e_value_text(evidence.log_e)}, first seen in request ")
    assert "(no proposal)" in verdict.text
    assert "looks like this: " in verdict.text
    assert verdict.best[0].name.endswith(("on bonuses +0.3", "on bonuses +0.9"))
    assert verdict.best[0].stratum == "no proposal"


def test_inconclusive_says_how_many_more_tokens(right: Columns) -> None:
    evidence = taken(right)
    verdict = judge(evidence.tally, TERMS, resolve=0.01)
    assert verdict.conclusion is Conclusion.INCONCLUSIVE
    assert verdict.conclusion.exit_status == 3
    assert verdict.needed is not None
    assert f"needs about {verdict.needed:,} more tokens" in verdict.text
    assert judge(evidence.tally, TERMS, planned=3_000).needed == 1_000
    assert judge(evidence.tally, TERMS, planned=2_000).conclusion is Conclusion.NO_DEVIATION


def test_what_a_tolerance_hides_needs_no_tokens(right: Columns) -> None:
    terms = Terms(alpha=1e-4, tolerance=0.02)
    verdict = judge(taken(right, terms).tally, terms, resolve=0.01)
    assert verdict.needed is None
    assert "no number of tokens helps" in verdict.text
    assert "hides in the tolerance of 0.02" in verdict.text


def test_a_large_e_value_that_decides_nothing_is_inconclusive(wrong: Columns) -> None:
    """Stopped where the e-value is beyond the square root of its threshold."""
    evidence, first = Evidence(Terms(alpha=1e-12), seeds=(5,)), 0
    while evidence.log_e < 0.5 * evidence.terms.log_threshold:
        evidence.take(wrong.part(first, first + 20))
        first += 20
    assert evidence.crossing is None
    verdict = judge(evidence.tally, evidence.terms)
    assert verdict.conclusion is Conclusion.INCONCLUSIVE
    assert "to decide" in verdict.text
    assert 0 < (verdict.needed or 0) < 2 * first


def test_before_the_first_token_nothing_is_concluded() -> None:
    evidence = Evidence(TERMS, seeds=(5,))
    verdict = judge(evidence.tally, TERMS)
    assert verdict.conclusion is Conclusion.INCONCLUSIVE
    assert (verdict.resolved, verdict.log_e, verdict.best) == (1.0, 0.0, ())


def impossible() -> Columns:
    row = np.array([0.5, 0.5, 0.0])
    stratum = Stratum(offset=0, proposals=0)
    return columns_of(
        [Emission(token=token, target=row, stratum=stratum, request=0, position=i) for i, token in enumerate((0, 2, 1))]
    )


def test_one_impossible_token_refutes_an_exact_null() -> None:
    evidence = taken(impossible())
    verdict = judge(evidence.tally, TERMS, crossing=evidence.crossing)
    assert evidence.crossing is not None
    assert (evidence.crossing.token, evidence.crossing.position) == (2, 1)
    assert "e-value infinite" in verdict.text
    assert "rule out, 1 of 3 tokens" in verdict.text


def test_a_tolerance_forgives_one_impossible_token_and_not_many() -> None:
    terms = Terms(alpha=1e-4, tolerance=1e-5)
    assert taken(impossible(), terms).crossing is None
    evidence = Evidence(terms, seeds=(1,))
    for _ in range(4):
        evidence.take(impossible())
    assert evidence.crossing is not None


@pytest.mark.parametrize("which", ["right", "wrong"])
def test_results_follow_their_schema(
    which: str, tmp_path: Path, identity: SubjectIdentity, request: pytest.FixtureRequest
) -> None:
    columns = request.getfixturevalue(which)
    ledgers = []
    for seed in (1, 2):
        with Ledger.begin(tmp_path / f"{seed}.jsonl", identity, TERMS, seed=seed) as ledger:
            evidence = ledger.evidence()
            ledger.append(evidence.take(columns.part(1_000 * (seed - 1), 1_000 * seed)), next_request=9)
            ledgers.append(ledger.content)
    for result in (result_of_run(ledgers[0]), result_of_merged(merge(ledgers))):
        text = json.loads(json.dumps(result, allow_nan=False))
        jsonschema.validate(text, result_schema())
        assert text["verdict"]["exit_status"] == (0 if which == "right" else 1)
        rejected = [test["stratum"] for test in text["diagnostics"] if test["rejects"]]
        assert ("no proposal" in rejected) == (which == "wrong")
        assert not {"offset 0", "offset 1", "offset 2"} & set(rejected)


def test_an_infinite_e_value_is_null(tmp_path: Path, identity: SubjectIdentity) -> None:
    with Ledger.begin(tmp_path / "l.jsonl", identity, TERMS, seed=1) as ledger:
        ledger.append(ledger.evidence().take(impossible()), next_request=1)
    result = result_of_run(ledger.content)
    jsonschema.validate(result, result_schema())
    assert result["verdict"]["log_e_value"] is None
    assert result["path"] == [[3, None]]


def test_the_schema_refuses_what_is_no_result(tmp_path: Path, identity: SubjectIdentity) -> None:
    with Ledger.begin(tmp_path / "l.jsonl", identity, TERMS, seed=1) as ledger:
        result = result_of_run(ledger.content)
    jsonschema.validate(result, result_schema())
    for broken in ({**result, "schema": "other"}, {**result, "extra": 1}, {**result, "runs": []}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, result_schema())


def test_numbers_for_people() -> None:
    assert [round_up(value) for value in (0.0123, 0.0999, 0.1, 0.5, 1.0)] == [0.013, 0.1, 0.1, 0.5, 1.0]
    assert e_value_text(2_000.0) == "1e+868"
    assert e_value_text(0.0) == "1"
    path = tuple((n, 0.0) for n in range(1, 10_001))
    assert len(thinned(path)) <= 2_001
    assert thinned(path)[-1] == path[-1]


def test_rows_that_are_no_rows_are_refused(right: Columns) -> None:
    evidence = Evidence(TERMS, seeds=(1,))
    good = right.part(0, 5)
    for name, columns in (
        ("target", replace(good, target=good.target * 1.1)),
        ("draft", replace(good, draft=good.draft - 0.2)),
        ("lagged", replace(good, lagged=good.lagged * np.nan)),
    ):
        with pytest.raises(EvidenceError, match=f"the {name} row of request 0, position 0 is no distribution"):
            evidence.take(columns)
    with pytest.raises(EvidenceError, match="ids from"):
        evidence.take(replace(good, tokens=good.tokens + 6))
    with pytest.raises(EvidenceError, match="empty"):
        evidence.take([])
    assert evidence.tally.tokens == 0
    for wrong in ({"alpha": 0.0}, {"alpha": 1.0}, {"tolerance": -0.1}, {"tolerance": 0.5}):
        with pytest.raises(EvidenceError):
            Terms(**wrong)
