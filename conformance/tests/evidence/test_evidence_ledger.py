"""The ledger: nothing is lost, nothing is counted twice, and nothing is continued that is about something else."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eredu.contract.errors import EvidenceError, OutputError
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
from eredu_validation.evidence import ledger as ledger_module

TERMS = Terms(alpha=0.05)


def write(path: Path, columns: Columns, identity: SubjectIdentity, *, seed: int, batch: int = 500) -> LedgerContent:
    with Ledger.begin(path, identity, TERMS, seed=seed) as ledger:
        evidence = ledger.evidence()
        for first in range(0, len(columns), batch):
            step = evidence.take(columns.part(first, min(first + batch, len(columns))))
            ledger.append(step, next_request=int(columns.requests[min(first + batch, len(columns)) - 1]) + 1)
        ledger.keep(evidence)
        return ledger.content


def test_what_is_read_is_what_was_written(tmp_path: Path, right: Columns, identity: SubjectIdentity) -> None:
    written = write(tmp_path / "l.jsonl", right, identity, seed=1)
    again = read_ledger(tmp_path / "l.jsonl")
    assert again == written
    assert again.tally.tokens == len(right)
    assert again.path[-1][0] == len(right)
    assert again.path[-1][1] == pytest.approx(log_e_of(again.tally, TERMS))
    assert again.next_request == int(right.requests[-1]) + 1


def request_ends(columns: Columns) -> list[int]:
    """Where each request of a stream ends: sessions take whole requests."""
    requests = columns.requests
    return [i for i in range(1, len(requests)) if requests[i] != requests[i - 1]]


def take(ledger: Ledger, columns: Columns, cuts: list[int]) -> Evidence:
    evidence = ledger.evidence()
    for first, last in pairwise(cuts):
        step = evidence.take(columns.part(first, last))
        ledger.append(step, next_request=int(columns.requests[last - 1]) + 1)
    ledger.keep(evidence)
    return evidence


def test_sessions_are_one_run_bit_for_bit(tmp_path: Path, wrong: Columns, identity: SubjectIdentity) -> None:
    """Counts, wealth, what was learned, the random numbers: an interruption leaves no trace in any of them."""
    ends = request_ends(wrong)
    cuts = [0, *ends[:: max(1, len(ends) // 12)]]
    assert len(cuts) > 8
    with Ledger.begin(tmp_path / "whole.jsonl", identity, TERMS, seed=1) as ledger:
        unbroken = take(ledger, wrong, cuts)
    path, size = tmp_path / "l.jsonl", -(-(len(cuts) - 1) // 3)
    with Ledger.begin(path, identity, TERMS, seed=1) as ledger:
        resumed = take(ledger, wrong, cuts[: size + 1])
    for first in range(size, len(cuts) - 1, size):
        with Ledger.resume(path, identity, TERMS) as ledger:
            assert ledger.drawn_again == 0
            resumed = take(ledger, wrong, cuts[first : first + size + 1])
    whole, parts = read_ledger(tmp_path / "whole.jsonl"), read_ledger(path)
    assert parts.batches == whole.batches
    assert parts.crossing is not None
    assert resumed.log_e == unbroken.log_e
    one, other = resumed.keep(), unbroken.keep()
    assert one is not None
    assert other is not None
    assert one.values == other.values
    assert all(np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items())
    assert any(array.any() for name, array in one.arrays.items() if name.endswith("promised"))


def test_what_was_not_kept_is_drawn_again(tmp_path: Path, right: Columns, identity: SubjectIdentity) -> None:
    """A killed process kept the bets behind its first batch, and wrote down two more."""
    path, ends = tmp_path / "l.jsonl", request_ends(right)
    with Ledger.begin(path, identity, TERMS, seed=1) as ledger:
        evidence = take(ledger, right, [0, ends[0]])
        for first, last in pairwise(ends[:3]):
            ledger.append(evidence.take(right.part(first, last)), next_request=int(right.requests[last - 1]) + 1)
    before = read_ledger(path)
    with Ledger.resume(path, identity, TERMS) as ledger:
        assert ledger.drawn_again == ends[2] - ends[0]
        assert ledger.content.tally.tokens == ends[0]
        take(ledger, right, ends[:3])
    assert read_ledger(path).batches == before.batches


def test_evidence_taken_in_part_is_not_kept(
    tmp_path: Path, right: Columns, identity: SubjectIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ends = tmp_path / "l.jsonl", request_ends(right)
    with Ledger.begin(path, identity, TERMS, seed=1) as ledger:
        evidence = take(ledger, right, [0, ends[0]])
        monkeypatch.setattr(Evidence, "_note_crossing", lambda *_: interrupt())
        with pytest.raises(KeyboardInterrupt):
            evidence.take(right.part(ends[0], ends[1]))
        kept = sorted(tmp_path.iterdir())
        ledger.keep(evidence)
        assert sorted(tmp_path.iterdir()) == kept


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("change", ["remove", "alter"])
def test_bets_that_are_not_those_of_the_ledger_are_refused(
    tmp_path: Path, right: Columns, identity: SubjectIdentity, change: str
) -> None:
    path = tmp_path / "l.jsonl"
    with Ledger.begin(path, identity, TERMS, seed=1) as ledger:
        take(ledger, right, [0, request_ends(right)[0]])
    (bets,) = tmp_path.glob("*.npz")
    if change == "remove":
        bets.unlink()
    else:
        bets.write_bytes(bets.read_bytes()[:-1] + b"!")
    with pytest.raises(EvidenceError, match=rf"{bets.name}"):
        Ledger.resume(path, identity, TERMS)
    assert read_ledger(path).tally.tokens > 0, "what it says can be read and merged"


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, right: Columns, identity: SubjectIdentity) -> None:
    path, ends = tmp_path / "l.jsonl", request_ends(right)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Ledger.begin(path, identity, TERMS, seed=1) as ledger:
        evidence = take(ledger, right, [0, ends[0]])
        whole = path.read_bytes()
        step = evidence.take(right.part(ends[0], ends[1]))
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 100, hard))
        try:
            with pytest.raises(OutputError, match=rf"{path} cannot be written: File too large"):
                ledger.append(step, next_request=9)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.read_bytes() == whole
        ledger.append(step, next_request=9)
    assert len(read_ledger(path).batches) == 2


def changed(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], lines[2].replace(b'"impossible":0', b'"impossible":1', 1), *lines[3:]]


@pytest.mark.parametrize(
    ("tamper", "line"),
    [
        (changed, 3),
        (lambda lines: [*lines[:2], *lines[3:]], 3),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], 2),
        (lambda lines: [*lines[:3], *lines[2:]], 4),
        (lambda lines: [lines[0].replace(b'"seed":1', b'"seed":2'), *lines[1:]], 1),
        (lambda lines: [*lines[:2], b"{}", *lines[2:]], 3),
        (lambda lines: [*lines[:2], b"", *lines[2:]], 3),
        (lambda lines: [lines[0], lines[1][:100], *lines[2:]], 2),
    ],
    ids=["changed", "cut out", "moved", "doubled", "header", "put in", "empty line", "half written"],
)
def test_a_tampered_line_is_named(
    tmp_path: Path, right: Columns, identity: SubjectIdentity, tamper: Callable[[list[bytes]], list[bytes]], line: int
) -> None:
    path = tmp_path / "l.jsonl"
    write(path, right.part(0, 300), identity, seed=1, batch=60)
    lines = path.read_bytes().split(b"\n")
    assert len(lines) > 6
    path.write_bytes(b"\n".join(tamper(lines)))
    with pytest.raises(EvidenceError, match=rf"^line {line} of {path} is not what was written there"):
        read_ledger(path)


def test_a_file_without_a_header_is_no_ledger(tmp_path: Path, right: Columns, identity: SubjectIdentity) -> None:
    path = tmp_path / "l.jsonl"
    write(path, right.part(0, 100), identity, seed=1)
    for content in (path.read_bytes().partition(b"\n")[2], b"", b"[]\n", b"\xff\n"):
        path.write_bytes(content)
        with pytest.raises(EvidenceError, match="is no ledger of schema"):
            read_ledger(path)


def test_a_ledger_of_the_earlier_form_is_called_that(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text('{"record":"header","schema":"eredu-evidence-ledger/1","run":"a"}\n', encoding="utf-8")
    with pytest.raises(EvidenceError, match=r"of the earlier form eredu-evidence-ledger/1, which keeps no bets"):
        read_ledger(path)


def test_ledgers_of_earlier_versions_go_on_with_their_own_numbers() -> None:
    """The randomised transforms of a seed are those of the first version, however modules are called."""
    evidence = Evidence(TERMS, seeds=(7, 0))
    assert evidence._generator.random(2).tolist() == [0.5312412730384304, 0.9151951653605046]


def test_half_a_line_at_the_end_is_cut_off(tmp_path: Path, right: Columns, identity: SubjectIdentity) -> None:
    path = tmp_path / "l.jsonl"
    written = write(path, right, identity, seed=1)
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[1][:200])
    assert read_ledger(path) == written
    with Ledger.resume(path, identity, TERMS) as ledger:
        ledger.append(ledger.evidence().take(right.part(0, 10)), next_request=99)
    assert read_ledger(path).tally.tokens == len(right) + 10
    assert path.read_bytes()[: len(whole)] == whole


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


def test_another_portfolio_is_refused(
    tmp_path: Path, right: Columns, identity: SubjectIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "l.jsonl"
    with monkeypatch.context() as older:
        older.setattr(ledger_module, "portfolio_version", lambda: "older")
        write(path, right.part(0, 100), identity, seed=1)
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
    evidence, request = ledger.evidence(), 0
    while True:
        stratum = Stratum(offset=0, proposals=0)
        batch = [Emission(token=i % 4, target=row, stratum=stratum, request=request, position=i) for i in range(50)]
        ledger.append(evidence.take(batch), next_request=(request := request + 1))
        ledger.keep(evidence)
        print(evidence.tally.tokens, flush=True)
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_an_interruption_loses_nothing_that_was_told(tmp_path: Path, stop: signal.Signals) -> None:
    path = tmp_path / "l.jsonl"
    heeding = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{WRITER}"
    with subprocess.Popen([sys.executable, "-c", heeding, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        told = [int(writer.stdout.readline()) for _ in range(6)][-1]
        os.kill(writer.pid, stop)
        told = max([told, *(int(line) for line in writer.stdout.read().splitlines() if line.isdigit())])
        writer.wait()
    written = read_ledger(path)
    assert written.tally.tokens in {told, told + 50}
    assert written.next_request == written.tally.tokens // 50
    with Ledger.resume(path, SubjectIdentity(target="t"), TERMS) as ledger:
        assert ledger.content.tally.tokens == written.tally.tokens


def test_independent_runs_multiply(tmp_path: Path, wrong: Columns, right: Columns, identity: SubjectIdentity) -> None:
    parts = [wrong.part(0, 400), wrong.part(400, 1_000), right.part(0, 300)]
    ledgers = [write(tmp_path / f"{i}.jsonl", part, identity, seed=i) for i, part in enumerate(parts)]
    merged = merge(ledgers)
    product = sum(ledger.tally.log_wealth for ledger in ledgers)
    assert merged.tally.log_wealth == pytest.approx(product)
    assert merged.tally.tokens == 1_300
    backwards = merge(ledgers[::-1])
    assert backwards.log_e == pytest.approx(merged.log_e, rel=1e-12)
    assert backwards.tally.pairs == merged.tally.pairs
    assert {n: (s.tokens, s.cells) for n, s in backwards.tally.strata.items()} == {
        n: (s.tokens, s.cells) for n, s in merged.tally.strata.items()
    }


def test_runs_that_are_not_independent_do_not_multiply(
    tmp_path: Path, right: Columns, identity: SubjectIdentity
) -> None:
    written = write(tmp_path / "a.jsonl", right.part(0, 100), identity, seed=7)
    with pytest.raises(EvidenceError, match="seed 7 and part 0"):
        merge([written, written])
    other = write(tmp_path / "b.jsonl", right.part(0, 100), replace(identity, target="u"), seed=8)
    with pytest.raises(EvidenceError, match='target was "t" and is "u"'):
        merge([written, other])
    with pytest.raises(EvidenceError, match="nothing was given"):
        merge([])
