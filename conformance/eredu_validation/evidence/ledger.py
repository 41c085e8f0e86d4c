"""The ledger: evidence on disk, one JSON object a line, only ever appended to.

The first line is the header: schema, run, identity, terms, seed. Every further line is a batch of tokens that was
taken whole. A line is written with one call and synchronised before anyone is told of it, so an interruption at any
moment loses at most the batch that was being taken; half a line at the end, left by a crash, is cut off on resumption.
A ledger is resumed only for the very subject that it was begun with.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from eredu.contract.errors import EvidenceError
from eredu_validation.evidence.json_form import Batch, batch_of, batch_record
from eredu_validation.evidence.process import Crossing, Evidence, Increment, Terms
from eredu_validation.evidence.subject_identity import SubjectIdentity, portfolio_version
from eredu_validation.evidence.tally import Tally, add_up

SCHEMA = "eredu-evidence-ledger/1"
LEDGER_NAME = "ledger.jsonl"
"""Name of the ledger in the folder of a validation."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """Whose evidence it is.

    Attributes:
        run: Name of the run, unique.
        identity: The subject.
        terms: What is tested.
        seed: Root of all randomness of the run.
        part: Number of the part of the run, where several processes share a seed; their requests differ.
    """

    run: str
    identity: SubjectIdentity
    terms: Terms
    seed: int
    part: int = 0

    def record(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "record": "header",
            "schema": SCHEMA,
            "run": self.run,
            "seed": self.seed,
            "part": self.part,
            "terms": {"alpha": self.terms.alpha, "tolerance": self.terms.tolerance},
            "fingerprint": self.identity.record(),
        }

    @property
    def subject(self) -> SubjectIdentity:
        """The identity with the terms among its settings: evidence under other terms is other evidence."""
        terms = {"alpha": self.terms.alpha, "tolerance": self.terms.tolerance}
        return replace(self.identity, settings={**self.identity.settings, **terms})


@dataclass(frozen=True)
class LedgerContent:
    """What a ledger says.

    Attributes:
        header: Whose evidence it is.
        batches: Its lines in their order.
    """

    header: Header
    batches: tuple[Batch, ...] = ()

    @cached_property
    def tally(self) -> Tally:
        """The sum of all batches."""
        return add_up(batch.increment.tally for batch in self.batches)

    @property
    def crossing(self) -> Crossing | None:
        """Where M first reached its threshold."""
        return self.batches[-1].increment.crossing if self.batches else None

    @property
    def next_request(self) -> int:
        """Where the next session goes on."""
        return self.batches[-1].next_request if self.batches else 0

    @property
    def path(self) -> tuple[tuple[int, float], ...]:
        """Tokens and ln M behind each batch."""
        return tuple((batch.increment.tokens, batch.increment.log_e) for batch in self.batches)

    def evidence(self) -> Evidence:
        """The running evidence, to go on from here."""
        seeds = (self.header.seed, self.header.part)
        return Evidence(self.header.terms, seeds=seeds, tally=self.tally, crossing=self.crossing)


class Ledger:
    """A ledger that is open for appending. Use it in a `with` statement: it is locked until it is closed.

    Attributes:
        path: Its file.
        content: What it says.
    """

    def __init__(self, path: Path, content: LedgerContent, descriptor: int) -> None:
        self.path = path
        self.content = content
        self._descriptor = descriptor

    @classmethod
    def begin(cls, path: Path, identity: SubjectIdentity, terms: Terms, *, seed: int, part: int = 0) -> Self:
        """Begin a ledger. Raises `EvidenceError` if the file exists."""
        header = Header(run=uuid.uuid4().hex, identity=_complete(identity), terms=terms, seed=seed, part=part)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            raise EvidenceError(f"{path} holds evidence already; resume it, or name another place") from None
        ledger = cls(path, LedgerContent(header), descriptor)
        ledger._lock()
        ledger._write(header.record())
        return ledger

    @classmethod
    def resume(cls, path: Path, identity: SubjectIdentity, terms: Terms) -> Self:
        """Go on with a ledger.

        Raises `EvidenceError` that names every difference if target, drafter, versions, settings or terms changed, and
        if another process has the ledger open.
        """
        header = read_ledger(path).header
        now = replace(header, identity=_complete(identity), terms=terms)
        differences = header.subject.differences(now.subject)
        if differences:
            raise EvidenceError(
                f"{path} is evidence about another subject: {'; '.join(differences)}. Restore that, or begin anew"
            )
        ledger = cls(path, LedgerContent(header), os.open(path, os.O_WRONLY | os.O_APPEND))
        ledger._lock()
        # Read again: what another process wrote before it let go of the lock counts.
        os.ftruncate(ledger._descriptor, _whole_length(path))
        ledger.content = read_ledger(path)
        return ledger

    def append(self, increment: Increment, *, next_request: int) -> None:
        """Write a batch down. When this returns, it is on the disk."""
        batch = Batch(increment=increment, next_request=next_request)
        self._write(batch_record(batch))
        self.content = LedgerContent(self.content.header, (*self.content.batches, batch))

    def close(self) -> None:
        """Unlock."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise EvidenceError(f"another process writes to {self.path}; wait for it, or name another place") from None

    def _write(self, record: dict[str, Any]) -> None:
        line = json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        while line:
            line = line[os.write(self._descriptor, line) :]
        os.fsync(self._descriptor)


def read_ledger(path: Path) -> LedgerContent:
    """What a ledger says, without half a line at its end. Raises `EvidenceError` for anything that is no ledger."""
    if not path.is_file():
        raise EvidenceError(f"there is no ledger at {path}; begin one, or name the place of an earlier run")
    lines = path.read_bytes()[: _whole_length(path)].splitlines()
    try:
        records = [json.loads(line) for line in lines]
        header = _header_of(records[0])
        return LedgerContent(header, tuple(batch_of(record) for record in records[1:]))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise EvidenceError(f"{path} is no ledger of schema {SCHEMA}: {type(error).__name__}: {error}") from error


def _header_of(record: dict[str, Any]) -> Header:
    if record.get("schema") != SCHEMA:
        raise ValueError(f"its first line says schema {record.get('schema')!r}")
    return Header(
        run=record["run"],
        identity=SubjectIdentity.of_record(record["fingerprint"]),
        terms=Terms(**record["terms"]),
        seed=record["seed"],
        part=record["part"],
    )


def _complete(identity: SubjectIdentity) -> SubjectIdentity:
    """With the version of the portfolio, whose order the log wealth is kept in."""
    return replace(identity, versions={**identity.versions, "portfolio": portfolio_version()})


def _whole_length(path: Path) -> int:
    """Bytes up to the end of the last whole line."""
    return path.read_bytes().rfind(b"\n") + 1
