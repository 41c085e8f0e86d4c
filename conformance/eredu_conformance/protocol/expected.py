"""Expected failures: a TOML file that the adopter owns, matched strictly.

    subject = "mlx-lm"

    [[expected]]
    check = "state.window-*"
    reason = "rejected rows stay in a full rotating cache"
    version = "0.32.*"

`check` is a shell pattern over check ids, `reason` says why, and `version` (optional) is a shell pattern over the
subject's version. An expected failure that passes is reported, as is an entry that no check matched: both mean
that the file is out of date.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from eredu_conformance.protocol.errors import MessageError
from eredu_conformance.protocol.shape import record, text


class Standing(StrEnum):
    """A check's result seen together with what was expected of it."""

    PASSED = "passed"
    FAILED = "failed"
    EXPECTED_FAILURE = "expected failure"
    UNEXPECTED_PASS = "unexpected pass"  # noqa: S105 - no password

    @property
    def is_news(self) -> bool:
        """Whether somebody has to act: an unforeseen failure, or an entry that no longer holds."""
        return self in {Standing.FAILED, Standing.UNEXPECTED_PASS}


@dataclass(frozen=True, kw_only=True)
class ExpectedFailure:
    """One entry of the file.

    Attributes:
        check: Shell pattern over check ids.
        reason: Why the checks fail, or a link to a report.
        version: Shell pattern over the subject's version.
    """

    check: str
    reason: str
    version: str = "*"

    def covers(self, check: str, version: str) -> bool:
        """Whether the entry speaks about this check of this version."""
        return fnmatchcase(check, self.check) and fnmatchcase(version, self.version)


@dataclass(frozen=True, kw_only=True)
class ExpectedFailures:
    """The file.

    Attributes:
        subject: Name of the subject that it is about.
        entries: In the file's order; the first that covers a check speaks for it.
    """

    subject: str
    entries: tuple[ExpectedFailure, ...] = ()

    def entry_for(self, check: str, version: str) -> ExpectedFailure | None:
        """The entry that speaks for a check, or None."""
        return next((entry for entry in self.entries if entry.covers(check, version)), None)

    def standing(self, check: str, version: str, *, passed: bool) -> Standing:
        """How a result stands. Skipped checks have no standing; don't ask."""
        if self.entry_for(check, version) is None:
            return Standing.PASSED if passed else Standing.FAILED
        return Standing.UNEXPECTED_PASS if passed else Standing.EXPECTED_FAILURE

    def unmatched(self, checks: Iterable[str], version: str) -> tuple[ExpectedFailure, ...]:
        """Entries that speak for none of the checks, although their version pattern fits."""
        speaking = {id(self.entry_for(check, version)) for check in checks}
        return tuple(e for e in self.entries if fnmatchcase(version, e.version) and id(e) not in speaking)


def read_expected_failures(path: Path, *, subject: str) -> ExpectedFailures:
    """Read the file.

    Raises:
        MessageError: it is no TOML, has an unknown or missing key, or is about another subject.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MessageError(f"{path}: not TOML: {error}") from error
    members = record(content, str(path), {"subject": text, "expected": _entries}, optional=frozenset({"expected"}))
    if members["subject"] != subject:
        raise MessageError(f"{path}: the file is about the subject {members['subject']!r}, the run about {subject!r}")
    return ExpectedFailures(subject=subject, entries=members.get("expected", ()))


def _entries(value: Any, path: str) -> tuple[ExpectedFailure, ...]:
    if not isinstance(value, list):
        raise MessageError(f"{path} is no list of tables; write [[expected]]")
    return tuple(_entry(item, f"{path}[{index}]") for index, item in enumerate(value))


def _entry(value: Mapping[str, Any], path: str) -> ExpectedFailure:
    readers = {"check": text, "reason": text, "version": text}
    entry = ExpectedFailure(**record(value, path, readers, optional=frozenset({"version"})))
    if not entry.reason.strip():
        raise MessageError(f"{path}.reason is empty; say why {entry.check!r} fails")
    return entry
