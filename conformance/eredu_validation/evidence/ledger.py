"""The ledger: evidence on disk, one JSON object a line, only ever appended to.

The first line is the header: schema, run, identity, terms, seed. Every further line is a batch of tokens that was
taken whole, or names the file beside it that holds what the bets had learned by then. A line is written with one call
and synchronised before anyone is told of it, so an interruption at any moment loses at most the batch that was being
taken; half a line at the end, left by a crash, is cut off on resumption. Each line has a checksum over all before it.

A ledger is resumed only for the very subject that it was begun with, and goes on as if it had never stopped: from the
last line behind which the bets were kept. Batches behind that line, which only a killed process leaves, are cut off and
drawn again, by the same seed to the same tokens.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import uuid
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from eredu.contract.errors import EvidenceError
from eredu.files.aside_file import AsideFile, make_folder, output_error
from eredu_validation.evidence.chained_lines import chained_line
from eredu_validation.evidence.json_form import Batch, batch_of, batch_record
from eredu_validation.evidence.kept_bets import KeptBets
from eredu_validation.evidence.ledger_content import Header, LedgerContent, content_of, read_ledger, read_lines
from eredu_validation.evidence.process import Evidence, Increment, Terms
from eredu_validation.evidence.subject_identity import SubjectIdentity, portfolio_version
from eredu_validation.evidence.wave import Wave

LEDGER_NAME = "ledger.jsonl"
"""Name of the ledger in the folder of a validation."""


class Ledger:
    """A ledger that is open for appending. Use it in a `with` statement: it is locked until it is closed.

    Attributes:
        path: Its file.
        content: What it says.
        drawn_again: Tokens that resumption cut off, because nothing was kept of what the bets learned from them.
    """

    def __init__(self, path: Path, content: LedgerContent, descriptor: int) -> None:
        self.path = path
        self.content = content
        self.drawn_again = 0
        self._descriptor = descriptor
        self._chain = ""
        self._bets: KeptBets | None = None
        self._kept_tokens = 0

    @classmethod
    def begin(cls, path: Path, identity: SubjectIdentity, terms: Terms, *, seed: int, part: int = 0) -> Self:
        """Begin a ledger. Raises `EvidenceError` if the file exists, `OutputError` where it cannot be written."""
        header = Header(run=uuid.uuid4().hex, identity=_complete(identity), terms=terms, seed=seed, part=part)
        make_folder(path.parent)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            raise EvidenceError(f"{path} holds evidence already; resume it, or name another place") from None
        except OSError as error:
            raise output_error(path, error) from error
        ledger = cls(path, LedgerContent(header), descriptor)
        ledger._lock()
        ledger._write(header.record())
        return ledger

    @classmethod
    def resume(cls, path: Path, identity: SubjectIdentity, terms: Terms) -> Self:
        """Go on with a ledger.

        Raises `EvidenceError` that names every difference if target, drafter, versions, settings or terms changed, if
        another process has the ledger open, and if the bets that it names are not there.
        """
        header = read_ledger(path).header
        now = replace(header, identity=_complete(identity), terms=terms)
        differences = header.subject.differences(now.subject)
        if differences:
            raise EvidenceError(
                f"{path} is evidence about another subject: {'; '.join(differences)}. Restore that, or begin anew"
            )
        try:
            ledger = cls(path, LedgerContent(header), os.open(path, os.O_WRONLY | os.O_APPEND))
        except OSError as error:
            raise output_error(path, error) from error
        ledger._lock()
        try:
            ledger._go_on()
        except BaseException:
            ledger.close()
            raise
        return ledger

    def _go_on(self) -> None:
        """Read again, for what another process wrote before it let go of the lock counts; cut what cannot go on."""
        lines = read_lines(self.path)
        last = max((n for n, line in enumerate(lines) if line.record["record"] == "bets"), default=0)
        kept, cut = lines[: last + 1], lines[last + 1 :]
        if last:
            self._bets = self._read_bets(lines[last].record)
        os.ftruncate(self._descriptor, kept[-1].end)
        self.content, self._chain = content_of(self.path, kept), kept[-1].chain
        self.drawn_again = sum(batch_of(line.record).increment.tally.tokens for line in cut)
        self._kept_tokens = self.content.tally.tokens

    def evidence(self) -> Evidence:
        """The running evidence, to go on from here."""
        header = self.content.header
        crossing = self.content.crossing
        return Evidence(header.terms, seeds=(header.seed, header.part), crossing=crossing, kept=self._bets)

    def append(self, increment: Increment, *, next_request: int, wave: Wave | None = None) -> None:
        """Write a batch down. When this returns, it is on the disk. Raises `OutputError` where it cannot be."""
        batch = Batch(increment=increment, next_request=next_request, wave=wave)
        self._write(batch_record(batch))
        self.content = LedgerContent(self.content.header, (*self.content.batches, batch))

    def keep(self, evidence: Evidence) -> None:
        """Write down what the bets learned from all batches so far, in a file beside the ledger.

        Does nothing where the evidence is not that of the ledger: where an interruption left a batch taken in part.
        """
        tokens = self.content.tally.tokens
        kept = evidence.keep()
        if kept is None or evidence.tally.tokens != tokens or tokens == self._kept_tokens:
            return
        data = kept.to_bytes()
        file = self.path.with_name(f"{self.path.stem}.bets-{tokens}.npz")
        with AsideFile(file) as aside:
            aside.write(data)
        self._write({"record": "bets", "file": file.name, "sha256": hashlib.sha256(data).hexdigest()})
        self._kept_tokens = tokens
        for old in self.path.parent.glob(f"{self.path.stem}.bets-*.npz"):
            if old != file:
                old.unlink(missing_ok=True)

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
        line, chain = chained_line(record, self._chain)
        length = os.fstat(self._descriptor).st_size
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
            os.fsync(self._descriptor)
        except BaseException as error:
            os.ftruncate(self._descriptor, length)  # half a line would be in the way of the next one
            if isinstance(error, OSError):
                raise output_error(self.path, error) from error
            raise
        self._chain = chain

    def _read_bets(self, record: dict[str, Any]) -> KeptBets:
        name = str(record["file"])
        path = self.path.with_name(Path(name).name)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise EvidenceError(
                f"{self.path} goes on from {name} beside it, which cannot be read: {error.strerror}; restore it, or "
                "begin the evidence anew"
            ) from error
        if hashlib.sha256(data).hexdigest() != record["sha256"]:
            raise EvidenceError(f"{path} is not what {self.path} names: it was changed. Restore it, or begin anew")
        return KeptBets.of_bytes(data)


def _complete(identity: SubjectIdentity) -> SubjectIdentity:
    """With the version of the portfolio, whose order the log wealth is kept in."""
    return replace(identity, versions={**identity.versions, "portfolio": portfolio_version()})
