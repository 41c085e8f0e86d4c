"""The reference beside a subject that follows the spec's randomness: same run, same addresses, same answers.

The reference computes in float64, an engine in float32, so where two scores are closer than their rounding either may
be right. A difference therefore counts only if noise of the size of that rounding on the reference's logits never
gives the engine's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eredu_conformance.checks.comparing import Difference, first_difference
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.protocol import Answer
from eredu_conformance.subjects.crafted_model import Jitter
from eredu_conformance.subjects.reference import ReferenceSubject

ENGINES = frozenset({"eredu", "reference"})
"""Subjects that claim the spec's own addresses. Other engines may have any randomness of their own."""
ROUNDING = 4e-5
"""Noise that stands for float32's rounding of a crafted checkpoint's logits, several times its largest."""
JITTERS = 24
"""Noises tried before a difference counts."""
COUNTERS = (
    "rounds",
    "drafted",
    "accepted",
    "rejected",
    "unexamined",
    "target_tokens",
    "emitted",
    "lookahead_blocks",
    "lookahead_promoted",
    "lookahead_drafted",
    "lookahead_consumed",
    "lookahead_reused",
    "lookahead_discarded",
    "bonus_matches",
    "bonus_mismatches",
    "lookahead_disabled",
)
"""Counters that the rules fix."""

Compare = Callable[[Sequence[Answer], Sequence[Answer]], Difference | None]


def reference_answers(trial: Trial, session: SubjectSession, jitter: Jitter | None = None) -> Sequence[Answer]:
    """The reference's answers to a trial."""
    return ReferenceSubject(jitter=jitter).run(trial.run(session.place(trial.pair))).answers


def different_statistics(answers: Sequence[Answer], due: Sequence[Answer]) -> Difference | None:
    """Where tokens or counters part, or None."""
    if (found := first_difference(answers, due)) is not None:
        return found
    for index, (answer, right) in enumerate(zip(answers, due, strict=True)):
        mine, other = answer.statistics or {}, right.statistics or {}
        wrong = {name: (mine.get(name), other.get(name)) for name in COUNTERS if mine.get(name) != other.get(name)}
        if wrong:
            told = ", ".join(f"{name} {seen}, due {right}" for name, (seen, right) in wrong.items())
            return index, len(answer.tokens), f"the statistics differ: {told}"
    return None


def differs(trial: Trial, session: SubjectSession, compare: Compare = first_difference) -> Difference | None:
    """Where the subject and the reference part and rounding can't be the reason, or None."""
    answers = session.answers(trial)
    found = compare(answers, reference_answers(trial, session))
    if found is None:
        return None
    if session.capabilities.name == "reference":
        return found  # in float64 like its twin: nothing rounds
    index = found[0]
    lonely = trial.alone(index)
    for number in range(JITTERS):
        noisy = reference_answers(lonely, session, Jitter(number, ROUNDING))
        if compare(answers[index : index + 1], noisy) is None:
            return None
    return found
