"""A session on the reference, and on the reference with one part replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.subjects.reference import ReferenceSubject
from eredu_reference import PIECES

MakeSession = Callable[..., SubjectSession]


@pytest.fixture
def session_of(tmp_path: Path) -> MakeSession:
    """Makes a session whose engine has the given pieces instead of the right ones."""

    def make(**pieces: object) -> SubjectSession:
        subject = ReferenceSubject(replace(PIECES, **pieces))  # type: ignore[arg-type]
        return SubjectSession(subject, subject.start(), tmp_path)

    return make
