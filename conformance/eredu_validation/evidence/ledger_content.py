"""What a ledger says: whose evidence it is, and its batches in their order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from eredu.contract.errors import EvidenceError
from eredu_validation.evidence.chained_lines import ChainedLine, read_chained
from eredu_validation.evidence.json_form import Batch, batch_of
from eredu_validation.evidence.process import Crossing, Terms
from eredu_validation.evidence.subject_identity import SubjectIdentity
from eredu_validation.evidence.tally import Tally, add_up
from eredu_validation.evidence.wave import Wave

SCHEMA = "eredu-evidence-ledger/2"
UNCHAINED = b'"schema":"eredu-evidence-ledger/1"'
"""In the first line of ledgers that keep no bets and have no checksums."""


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
    def wave(self) -> Wave | None:
        """The wave that was being drawn."""
        return self.batches[-1].wave if self.batches else None

    @property
    def path(self) -> tuple[tuple[int, float], ...]:
        """Tokens and ln M behind each batch."""
        return tuple((batch.increment.tokens, batch.increment.log_e) for batch in self.batches)


def read_ledger(path: Path) -> LedgerContent:
    """What a ledger says, without half a line at its end. Raises `EvidenceError` for anything that is no ledger."""
    return content_of(path, read_lines(path))


def read_lines(path: Path) -> list[ChainedLine]:
    """The whole lines of a ledger. Raises `EvidenceError` as `read_ledger` does."""
    if not path.is_file():
        raise EvidenceError(f"there is no ledger at {path}; begin one, or name the place of an earlier run")
    data = path.read_bytes()
    first = data.partition(b"\n")[0]
    if UNCHAINED in first:
        raise EvidenceError(
            f"{path} is of the earlier form eredu-evidence-ledger/1, which keeps no bets; this eredu writes {SCHEMA}: "
            "begin the evidence anew in another folder"
        )
    if f'"schema":"{SCHEMA}"'.encode() not in first:
        raise EvidenceError(f"{path} is no ledger of schema {SCHEMA}: its first line does not say so")
    return read_chained(data, str(path))


def content_of(path: Path, lines: list[ChainedLine]) -> LedgerContent:
    """What lines say. Raises `EvidenceError` where they are no ledger's."""
    try:
        header = _header_of(lines[0].record)
        batches = [batch_of(line.record) for line in lines[1:] if line.record["record"] == "batch"]
        return LedgerContent(header, tuple(batches))
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
