"""The smoke stage: it tells "your adapter is wrong" from "your engine is wrong".

Plain decoding of a checkpoint with one possible output can only go wrong in the adapter (wrong files, wrong ids, a lost
prompt, a budget that isn't passed on), or in an engine too broken to judge. Only when all of that is right does a
wrong speculative output mean that speculation itself is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from eredu_conformance.crafted import Architecture, BigramCheckpoint, CheckpointPair, crafted_pair
from eredu_conformance.crafted.tables import cycle_table
from eredu_conformance.protocol.capabilities import Capabilities
from eredu_conformance.protocol.errors import ConformanceError
from eredu_conformance.protocol.options import RunOptions
from eredu_conformance.protocol.run import Answer, Checkpoint, Finish, Request, Run
from eredu_conformance.protocol.subject import Errored, Ok, Outcome, Skipped, Subject, attempt


class Blame(StrEnum):
    """Who has to look at a failed smoke check."""

    ADAPTER = "your adapter is wrong"
    ENGINE = "your engine is wrong"


@dataclass(frozen=True, kw_only=True)
class SmokeCheck:
    """One check.

    Attributes:
        name: `smoke.` and a phrase.
        blame: Whom a failure points at.
        passed: True, False, or None when the subject skipped it.
        message: What was seen and what to do; the reason of a skip; empty when passed.
    """

    name: str
    blame: Blame
    passed: bool | None
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class SmokeReport:
    """The checks in order. The engine's follow only when none of the adapter's failed, and none follows an error."""

    checks: tuple[SmokeCheck, ...]

    @property
    def verdict(self) -> Blame | None:
        """Whom the first failure points at, or None."""
        return next((check.blame for check in self.checks if check.passed is False), None)


@dataclass(frozen=True, kw_only=True)
class _Question:
    """One request whose only right answer is known."""

    name: str
    pair: CheckpointPair
    options: RunOptions
    finish: Finish = Finish.LENGTH
    prompt: tuple[int, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        return self.prompt or self.pair.prompt

    @property
    def expected(self) -> tuple[int, ...]:
        path = self.pair.target.greedy_path(self.ids, self.options.max_tokens)
        ends = [index for index, token in enumerate(path) if token in self.options.eos_ids]
        return path[: ends[0] + 1] if ends else path

    def run(self, directory: Path) -> Run:
        place = self.pair.write(directory / self.pair.name)
        draft = place.draft if self.options.max_proposals else None
        return Run(
            checkpoint=Checkpoint(target=place.target, draft=draft),
            requests=(Request(prompt=self.ids, options=self.options),),
        )


def smoke(subject: Subject, directory: Path) -> SmokeReport:
    """Start the subject and ask it the smoke questions; crafted checkpoints are written under `directory`."""
    try:
        capabilities = subject.start()
    except (ConformanceError, OSError) as error:
        return SmokeReport(
            checks=(SmokeCheck(name="smoke.start", blame=Blame.ADAPTER, passed=False, message=str(error)),)
        )
    checks = [SmokeCheck(name="smoke.start", blame=Blame.ADAPTER, passed=True)]
    for blame, questions in ((Blame.ADAPTER, _plain_questions()), (Blame.ENGINE, _speculative_questions(capabilities))):
        if any(check.passed is False for check in checks):
            break
        for question in questions:
            outcome = attempt(subject, capabilities, question.run(directory))
            checks.append(_judge(question, outcome, blame))
            if isinstance(outcome, Errored):
                break
    return SmokeReport(checks=tuple(checks))


def _ring(architecture: Architecture) -> CheckpointPair:
    ring = BigramCheckpoint(
        name=f"ring-64-{architecture.value}", architecture=architecture, probabilities=cycle_table(64)
    )
    return CheckpointPair(ring.name, ring, ring, (61,), "every id, the last and the first")


def _plain_questions() -> Iterator[_Question]:
    cycle = crafted_pair("cycle")
    yield _Question(name="smoke.one-possible-output", pair=cycle, options=RunOptions(max_tokens=9))
    yield _Question(name="smoke.repeated-run", pair=cycle, options=RunOptions(max_tokens=9))
    yield _Question(name="smoke.prompt-of-one", pair=cycle, options=RunOptions(max_tokens=4), prompt=(5,))
    yield _Question(name="smoke.budget-of-one", pair=cycle, options=RunOptions(max_tokens=1))
    for architecture in Architecture:
        name = f"smoke.vocabulary-{architecture.value}"
        yield _Question(name=name, pair=_ring(architecture), options=RunOptions(max_tokens=6))
    yield _Question(name="smoke.whole-prompt", pair=crafted_pair("path"), options=RunOptions(max_tokens=12))
    ending = RunOptions(max_tokens=9, eos_ids=(6,))
    yield _Question(name="smoke.end-of-sequence", pair=cycle, options=ending, finish=Finish.EOS)
    yield _Question(name="smoke.temperature", pair=cycle, options=RunOptions(max_tokens=9, temperature=1.0))


def _speculative_questions(capabilities: Capabilities) -> Iterator[_Question]:
    depths = sorted({1, 3} & set(range(1, capabilities.max_proposals + 1)))
    for depth in depths:
        options = RunOptions(max_tokens=13, max_proposals=depth)
        for name in ("cycle", "cycle-wrong", "path"):
            yield _Question(name=f"smoke.speculative-{name}-{depth}", pair=crafted_pair(name), options=options)


def _judge(question: _Question, outcome: Outcome, blame: Blame) -> SmokeCheck:
    passed: bool | None = False
    match outcome:
        case Skipped(reason=reason):
            passed, message = None, reason
        case Errored(message=message):
            pass
        case Ok(result=result):
            message = _fault(question, result.answers[0])
            passed = not message
    return SmokeCheck(name=question.name, blame=blame, passed=passed, message=message)


def _fault(question: _Question, answer: Answer) -> str:
    """What is wrong with an answer; empty if nothing is."""
    if answer.tokens != question.expected:
        return _difference(question, answer)
    if answer.finish is not question.finish:
        return f"the tokens are right, the finish reason is {answer.finish.value}; expected {question.finish.value}"
    return ""


def _difference(question: _Question, answer: Answer) -> str:
    tokens, expected = answer.tokens, question.expected
    return (
        f"prompt {list(question.ids)}, {question.options.max_tokens} tokens asked: got {list(tokens)}; "
        f"the only possible output is {list(expected)}. {_hint(question, tokens, expected)}"
    )


def _hint(question: _Question, tokens: Sequence[int], expected: Sequence[int]) -> str:
    prompt = list(question.ids)
    got, wanted = list(tokens), list(expected)
    if not got:
        return "Nothing came back."
    if got[: len(prompt)] == prompt and wanted[: len(prompt)] != prompt:
        return "The answer begins with the prompt: send the output ids alone."
    if any(not 0 <= token < question.pair.target.vocabulary for token in got):
        return "Some ids are outside of the vocabulary: send the checkpoint's ids, not those of another tokenizer."
    if got[: len(wanted)] == wanted:
        return "There are too many tokens: max_tokens, or an end id, was not obeyed."
    if wanted[: len(got)] == got:
        return "There are too few tokens; a terminal id belongs to the answer."
    if got[1:] == wanted[: len(got) - 1] or wanted[1:] == got[: len(wanted) - 1]:
        return "The answer is shifted by one token."
    return "The ids come from another law: check which directory is loaded and that the whole prompt is fed."
