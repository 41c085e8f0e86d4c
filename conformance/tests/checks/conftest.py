"""A bench on the reference, and on the reference with one part replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from eredu_conformance.checks.subject_session import Bench
from eredu_conformance.subjects.reference import ReferenceSubject
from eredu_reference import PIECES

MakeBench = Callable[..., Bench]


@pytest.fixture
def bench_of(tmp_path: Path) -> MakeBench:
    """Makes a bench whose engine has the given pieces instead of the right ones."""

    def make(**pieces: object) -> Bench:
        subject = ReferenceSubject(replace(PIECES, **pieces))  # type: ignore[arg-type]
        return Bench(subject, subject.start(), tmp_path)

    return make
