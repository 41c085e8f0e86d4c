"""The session: a started subject, and crafted pairs written once for all checks on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from eredu_conformance.checks.finding import CheckFailure
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import CheckpointPair, PairDirectories
from eredu_conformance.protocol import (
    Answer,
    Capabilities,
    Errored,
    Ok,
    RunResult,
    Skipped,
    SkippedRunError,
    Subject,
    attempt,
)


@dataclass
class SubjectSession:
    """Where checks put their questions.

    Attributes:
        subject: The subject, started.
        capabilities: What it declared.
        directory: Where pairs are written.
        shrinking: Runs that a failing trial may cost on its way to the smallest one.
        runs: Runs asked so far.
        tokens: Output tokens seen so far.
    """

    subject: Subject
    capabilities: Capabilities
    directory: Path
    shrinking: int = 60
    runs: int = 0
    tokens: int = 0
    _places: dict[str, PairDirectories] = field(default_factory=dict)
    _plain: dict[str, tuple[Answer, ...]] = field(default_factory=dict)

    def with_subject(self, subject: Subject) -> SubjectSession:
        """A session with another subject of the same capabilities, on the pairs written so far; it shrinks nothing."""
        return SubjectSession(subject, self.capabilities, self.directory, shrinking=0, _places=self._places)

    def place(self, pair: CheckpointPair) -> PairDirectories:
        """Where a pair lies; it is written on first use."""
        if pair.name not in self._places:
            self._places[pair.name] = pair.write(self.directory / pair.name)
        return self._places[pair.name]

    def result(self, trial: Trial) -> RunResult:
        """Do a trial in one run.

        Raises:
            SkippedRunError: the subject can't.
            CheckFailure: it erred. An engine that declares what it then can't do does not conform.
        """
        self.runs += 1
        match attempt(self.subject, self.capabilities, trial.run(self.place(trial.pair))):
            case Skipped(reason=reason):
                raise SkippedRunError(reason)
            case Errored(message=message, detail=detail):
                last = "\n".join(detail.strip().splitlines()[-3:])
                raise CheckFailure(
                    f"the run ended without an answer: {message}" + (f"\n{last}" if last else ""),
                    history=trial.requests[0].prompt,
                    case=trial.describe(),
                )
            case Ok(result=result):
                self.tokens += sum(len(answer.tokens) for answer in result.answers)
                return result

    def answers(self, trial: Trial) -> tuple[Answer, ...]:
        """Answers of a trial, in as few runs as the subject's batch allows. Errors as in `result`."""
        most = self.capabilities.max_batch
        found: tuple[Answer, ...] = ()
        for first in range(0, len(trial.requests), most):
            part = Trial(
                pair=trial.pair,
                requests=trial.requests[first : first + most],
                schedule=trial.schedule,
                seed=trial.seed,
            )
            found += self.result(part).answers
        return found

    def plain_answers(self, trial: Trial) -> tuple[Answer, ...]:
        """Answers of the trial's plain version. Remembered, so ask only where the subject is known to repeat itself."""
        plain = trial.plain()
        key = repr(plain.describe())
        if key not in self._plain:
            self._plain[key] = self.answers(plain)
        return self._plain[key]
