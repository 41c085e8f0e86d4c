"""Equality of answers: a trial against what is due for it, reduced to the smallest case where they part."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eredu_conformance.checks.expected_output import ExpectedOutput
from eredu_conformance.checks.finding import CheckFailure
from eredu_conformance.checks.shrinking import shrink
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.protocol import Answer

Due = Callable[[Trial], Sequence[Answer]]
"""What is due for a trial, and for every reduction of it."""

Difference = tuple[int, int, str]
"""Number of the request, output position where answers part, and what was seen."""


def greedy_due(trial: Trial) -> list[Answer]:
    """The law's own greedy answers."""
    return [ExpectedOutput(trial.pair.target, request).greedy() for request in trial.requests]


def first_difference(answers: Sequence[Answer], due: Sequence[Answer]) -> Difference | None:
    """Where answers part from what is due, or None."""
    for index, (answer, right) in enumerate(zip(answers, due, strict=True)):
        if answer.tokens != right.tokens:
            pairs = zip(answer.tokens, right.tokens, strict=False)
            place = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(answer.tokens), len(right.tokens)))
            return index, place, f"got {list(answer.tokens)}, due {list(right.tokens)}; they part at output {place}"
        if answer.finish is not right.finish:
            end = len(answer.tokens)
            return index, end, f"{list(answer.tokens)} ended with {answer.finish.value}, due {right.finish.value}"
    return None


def require_equal(session: SubjectSession, trial: Trial, due: Due, *, what: str) -> int:
    """Do a trial and hold its answers to what is due.

    Args:
        session: The subject.
        trial: What is asked.
        due: What is due.
        what: Names the two sides, for the message.

    Returns:
        Output tokens compared.

    Raises:
        CheckFailure: they differ; the counterexample is the smallest found.
    """

    def verdict(candidate: Trial) -> Difference | None:
        return first_difference(session.answers(candidate), due(candidate))

    before = session.tokens
    if verdict(trial) is None:
        return session.tokens - before
    smallest = shrink(trial, lambda smaller: verdict(smaller) is not None, most_attempts=session.shrinking)
    found = verdict(smallest)
    if found is None:
        smallest, found = trial, verdict(trial)
    if found is None:
        raise CheckFailure(
            f"{what}: they differed once and agree when asked again, so one of them does not repeat itself",
            case=trial.describe(),
        )
    index, place, message = found
    request = smallest.requests[index]
    right = due(smallest)[index].tokens[:place]
    raise CheckFailure(f"{what}: {message}", history=request.prompt + right, case=smallest.describe())
