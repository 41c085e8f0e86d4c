"""Subjects that are wrong in one place."""

from __future__ import annotations

from dataclasses import replace

from eredu_conformance.faults import fault_named
from eredu_conformance.protocol import Capabilities, Run, RunResult
from eredu_conformance.subjects.reference import ReferenceSubject


class WrongEngine(ReferenceSubject):
    """Breaks ties of the maximum upwards when it speculates; the smoke stage has no ties."""

    def __init__(self) -> None:
        super().__init__(fault_named("greedy-breaks-ties-upwards").engine())


class WrongAdapter(ReferenceSubject):
    """Sends the prompt along."""

    def run(self, run: Run) -> RunResult:
        result = super().run(run)
        answers = zip(result.answers, run.requests, strict=True)
        return replace(result, answers=tuple(replace(a, tokens=r.prompt + a.tokens) for a, r in answers))


class Absent(ReferenceSubject):
    """Doesn't start."""

    def start(self) -> Capabilities:
        raise OSError("no such device")
