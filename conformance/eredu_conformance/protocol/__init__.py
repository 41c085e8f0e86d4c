"""The protocol between the suite and an engine: in process, or as a program that speaks JSON lines."""

from eredu_conformance.protocol.capabilities import Capabilities, Feature
from eredu_conformance.protocol.errors import ConformanceError, MessageError, SkippedRunError, SubjectError
from eredu_conformance.protocol.expected import ExpectedFailure, ExpectedFailures, Standing, read_expected_failures
from eredu_conformance.protocol.opening import SUBJECTS, SubjectSource
from eredu_conformance.protocol.options import Acceptance, Grammar, RunOptions, Schedule
from eredu_conformance.protocol.outcome_tree import OutputLaw, output_law
from eredu_conformance.protocol.program import ProgramSubject
from eredu_conformance.protocol.run import Answer, Checkpoint, Finish, Request, Round, Run, RunResult
from eredu_conformance.protocol.serve import serve, serve_stdio, subject_named
from eredu_conformance.protocol.smoke import Blame, SmokeCheck, SmokeReport, smoke
from eredu_conformance.protocol.subject import Errored, Ok, Outcome, Skipped, Subject, attempt

__all__ = [
    "SUBJECTS",
    "Acceptance",
    "Answer",
    "Blame",
    "Capabilities",
    "Checkpoint",
    "ConformanceError",
    "Errored",
    "ExpectedFailure",
    "ExpectedFailures",
    "Feature",
    "Finish",
    "Grammar",
    "MessageError",
    "Ok",
    "Outcome",
    "OutputLaw",
    "ProgramSubject",
    "Request",
    "Round",
    "Run",
    "RunOptions",
    "RunResult",
    "Schedule",
    "Skipped",
    "SkippedRunError",
    "SmokeCheck",
    "SmokeReport",
    "Standing",
    "Subject",
    "SubjectError",
    "SubjectSource",
    "attempt",
    "output_law",
    "read_expected_failures",
    "serve",
    "serve_stdio",
    "smoke",
    "subject_named",
]
