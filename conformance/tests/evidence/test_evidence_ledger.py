"""The ledger: nothing is lost, nothing is counted twice, and nothing is continued that is about something else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eredu.contract.errors import EvidenceError
from eredu_validation.evidence import (
    Columns,
    Evidence,
    Ledger,
    LedgerContent,
    SubjectIdentity,
    Terms,
    log_e_of,
    merge,
    read_ledger,
)

TERMS = Terms(alpha=0.05)


def write(path: Path, columns: Columns, identity: SubjectIdentity, *, seed: int, batch: int = 500) -> LedgerContent:
    with Ledger.begin(path, identity, TERMS, seed=seed) as ledger:
        evidence = ledger.content.evidence()
        for first in range(0, len(columns), batch):
            step = evidence.take(columns.part(first, min(first + batch, len(columns))))
            ledger.append(step, next_request=int(columns.requests[min(first + batch, len(columns)) - 1]) + 1)
        return ledger.content


def test_what_is_read_is_what_was_written(tmp_path: Path, right: Columns, identity: SubjectIdentity) -> None:
    book = write(tmp_path / "l.jsonl", right, identity, seed=1)
    again = read_ledger(tmp_path / "l.jsonl")
    assert again == book
    assert again.tally.tokens == len(right)
    assert again.path[-1][0] == len(right)
    assert again.path[-1][1] == pytest.approx(log_e_of(again.tally, TERMS))
    assert again.next_request == int(right.requests[-1]) + 1


def test_two_sessions_are_one_run(tmp_path: Path, wrong: Columns, identity: SubjectIdentity) -> None:
    """Counts and wealth go on; only what the learning bets learned starts afresh."""
    path = tmp_path / "l.jsonl"
    first = write(path, wrong.part(0, 700), identity, seed=1)
    with Ledger.resume(path, identity, TERMS) as ledger:
        assert ledger.content == first
        evidence = ledger.content.evidence()
        assert evidence.log_e == pytest.approx(first.path[-1][1])
        ledger.append(evidence.take(wrong.part(700, 2_000)), next_request=40)
    book = read_ledger(path)
    assert book.tally.tokens == 2_000
    fixed = [index for index, owner in enumerate(evidence.portfolio.owners) if owner.name in {"leak", "residual"}]
    whole = write(tmp_path / "whole.jsonl", wrong, identity, seed=1).tally
    assert book.tally.log_wealth[fixed] == pytest.approx(whole.log_wealth[fixed], abs=1e-9)
    assert book.crossing is not None


def test_ledgers_of_earlier_versions_go_on_with_their_own_numbers() -> None:
    """The randomised transforms of a seed are those of the first version, however modules are called."""
    evidence = Evidence(TERMS, seeds=(7, 0))
    assert evidence._generator.random(2).tolist() == [0.5312412730384304, 0.9151951653605046]


def test_half_a_line_at_the_end_is_cut_off(tmp_path: Path, right: Columns, identity: SubjectIdentity) -> None:
    path = tmp_path / "l.jsonl"
    book = write(path, right, identity, seed=1)
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[-1][:200])
    assert read_ledger(path) == book
    with Ledger.resume(path, identity, TERMS) as ledger:
        ledger.append(ledger.content.evidence().take(right.part(0, 10)), next_request=99)
    assert read_ledger(path).tally.tokens == len(right) + 10
    assert path.read_bytes()[: len(whole)] == whole


def test_a_half_written_line_in_the_middle_is_an_error(
    tmp_path: Path, right: Columns, identity: SubjectIdentity
) -> None:
    path = tmp_path / "l.jsonl"
    write(path, right, identity, seed=1)
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([lines[0], lines[1][:100], *lines[2:], b""]))
    with pytest.raises(EvidenceError, match="is no ledger of schema"):
        read_ledger(path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"target": "other"}, 'target was "t" and is "other"'),
        ({"drafter": ""}, 'drafter was "d" and is ""'),
        ({"versions": {"mlx": "0.33.0"}}, 'versions.mlx was "0.32.4" and is "0.33.0"'),
        ({"versions": {"mlx": "0.32.4", "python": "3.12"}}, 'versions.python was not given and is "3.12"'),
        ({"settings": {"temperature": 0.9, "k": 3}}, "settings.temperature was 1.0 and is 0.9"),
        ({"settings": {"temperature": 1.0}}, "settings.k was 3 and is not given"),
    ],
)
def test_another_subject_is_refused_by_name(
    tmp_path: Path, right: Columns, identity: SubjectIdentity, change: dict[str, Any], named: str
) -> None:
    path = tmp_path / "l.jsonl"
    write(path, right.part(0, 100), identity, seed=1)
    before = path.read_bytes()
    with pytest.raises(EvidenceError) as refusal:
        Ledger.resume(path, replace(identity, **change), TERMS)
    assert named in str(refusal.value)
    assert path.read_bytes() == before
    Ledger.resume(path, identity, TERMS).close()


@pytest.mark.parametrize("terms", [Terms(alpha=0.01), Terms(alpha=0.05, tolerance=1e-5)])
def test_other_terms_are_refused(tmp_path: Path, right: Columns, identity: SubjectIdentity, terms: Terms) -> None:
    path = tmp_path / "l.jsonl"
    write(path, right.part(0, 100), identity, seed=1)
    with pytest.raises(EvidenceError, match=r"settings\.(alpha|tolerance) was"):
        Ledger.resume(path, identity, terms)


def test_another_portfolio_is_refused(tmp_path: Path, right: Columns, identity: SubjectIdentity) -> None:
    path = tmp_path / "l.jsonl"
    write(path, right.part(0, 100), identity, seed=1)
    header, *rest = path.read_text().splitlines(keepends=True)
    record = json.loads(header)
    record["fingerprint"]["versions"]["portfolio"] = "older"
    path.write_text("".join([json.dumps(record) + "\n", *rest]))
    with pytest.raises(EvidenceError, match=r"versions\.portfolio was \"older\""):
        Ledger.resume(path, identity, TERMS)


def test_a_ledger_is_not_begun_twice_nor_written_by_two(
    tmp_path: Path, right: Columns, identity: SubjectIdentity
) -> None:
    path = tmp_path / "deep" / "l.jsonl"
    write(path, right.part(0, 100), identity, seed=1)
    with pytest.raises(EvidenceError, match="holds evidence already"):
        Ledger.begin(path, identity, TERMS, seed=2)
    with Ledger.resume(path, identity, TERMS), pytest.raises(EvidenceError, match="another process writes"):
        Ledger.resume(path, identity, TERMS)
    with pytest.raises(EvidenceError, match="there is no ledger"):
        Ledger.resume(tmp_path / "none.jsonl", identity, TERMS)


WRITER = """
import sys, numpy as np
from pathlib import Path
from eredu_validation.evidence import Emission, SubjectIdentity, Ledger, Stratum, Terms
row = np.full(4, 0.25)
with Ledger.begin(Path(sys.argv[1]), SubjectIdentity(target="t"), Terms(alpha=0.05), seed=1) as ledger:
    evidence, request = ledger.content.evidence(), 0
    while True:
        stratum = Stratum(offset=0, proposals=0)
        batch = [Emission(token=i % 4, target=row, stratum=stratum, request=request, position=i) for i in range(50)]
        ledger.append(evidence.take(batch), next_request=(request := request + 1))
        print(evidence.tally.tokens, flush=True)
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_an_interruption_loses_nothing_that_was_told(tmp_path: Path, stop: signal.Signals) -> None:
    path = tmp_path / "l.jsonl"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        told = [int(writer.stdout.readline()) for _ in range(6)][-1]
        os.kill(writer.pid, stop)
        told = max([told, *(int(line) for line in writer.stdout.read().splitlines() if line.isdigit())])
        writer.wait()
    book = read_ledger(path)
    assert book.tally.tokens in {told, told + 50}
    assert book.next_request == book.tally.tokens // 50
    with Ledger.resume(path, SubjectIdentity(target="t"), TERMS) as ledger:
        assert ledger.content.tally.tokens == book.tally.tokens


def test_independent_runs_multiply(tmp_path: Path, wrong: Columns, right: Columns, identity: SubjectIdentity) -> None:
    parts = [wrong.part(0, 400), wrong.part(400, 1_000), right.part(0, 300)]
    books = [write(tmp_path / f"{i}.jsonl", part, identity, seed=i) for i, part in enumerate(parts)]
    merged = merge(books)
    product = sum(book.tally.log_wealth for book in books)
    assert merged.tally.log_wealth == pytest.approx(product)
    assert merged.tally.tokens == 1_300
    backwards = merge(books[::-1])
    assert backwards.log_e == pytest.approx(merged.log_e, rel=1e-12)
    assert backwards.tally.pairs == merged.tally.pairs
    assert {n: (s.tokens, s.cells) for n, s in backwards.tally.strata.items()} == {
        n: (s.tokens, s.cells) for n, s in merged.tally.strata.items()
    }


def test_runs_that_are_not_independent_do_not_multiply(
    tmp_path: Path, right: Columns, identity: SubjectIdentity
) -> None:
    book = write(tmp_path / "a.jsonl", right.part(0, 100), identity, seed=7)
    with pytest.raises(EvidenceError, match="seed 7 and part 0"):
        merge([book, book])
    other = write(tmp_path / "b.jsonl", right.part(0, 100), replace(identity, target="u"), seed=8)
    with pytest.raises(EvidenceError, match='target was "t" and is "u"'):
        merge([book, other])
    with pytest.raises(EvidenceError, match="nothing was given"):
        merge([])
