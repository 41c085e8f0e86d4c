"""Walking the tree of outcomes: exact where the subject is honest, an error where its decisions disagree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import (
    Answer,
    Capabilities,
    Checkpoint,
    Feature,
    Finish,
    MessageError,
    Request,
    Run,
    RunResult,
    SkippedRunError,
    SubjectError,
    output_law,
)

Decisions = list[tuple[float, ...]]
ABLE = Capabilities(name="able", version="1", features=frozenset({Feature.CHOICES}))


class Scripted:
    """Decides by a function of the outcomes so far, until that returns None; answers with the outcomes."""

    def __init__(self, weights: Callable[[Sequence[int]], tuple[float, ...] | None]) -> None:
        self.weights = weights

    def start(self) -> Capabilities:
        return ABLE

    def run(self, run: Run) -> RunResult:
        assert run.choices is not None
        path: list[int] = []
        decisions: Decisions = []
        while (weights := self.weights(path)) is not None:
            decisions.append(weights)
            step = len(path)
            chosen = run.choices[step] if step < len(run.choices) else next(i for i, w in enumerate(weights) if w > 0)
            path.append(chosen)
        answer = Answer(tokens=tuple(path), finish=Finish.LENGTH)
        return RunResult(answers=(answer,), decisions=tuple(decisions))

    def stop(self) -> None:
        pass


@pytest.fixture
def run(tmp_path: Path) -> Run:
    place = crafted_pair("table").write(tmp_path)
    return Run(checkpoint=Checkpoint(target=place.target), requests=(Request(prompt=(0,)),))


def test_walks_every_path_once(run: Run) -> None:
    def weights(path: Sequence[int]) -> tuple[float, ...] | None:
        if len(path) == 2 or path == [2]:
            return None
        return (0.5, 0, 0.25, 0.25) if not path else (1.0, 3.0)

    law = output_law(Scripted(weights), ABLE, run)
    assert law == {(0, 0): 0.125, (0, 1): 0.375, (2,): 0.25, (3, 0): 0.0625, (3, 1): 0.1875}


def test_no_decision_is_certainty(run: Run) -> None:
    assert output_law(Scripted(lambda _: None), ABLE, run) == {(): 1.0}


def test_bound(run: Run) -> None:
    with pytest.raises(SubjectError, match="more than 50 paths"):
        output_law(Scripted(lambda path: (1.0, 1.0) if len(path) < 10 else None), ABLE, run, most_runs=50)


def test_contradictions(run: Run) -> None:
    calls: list[int] = []

    def fickle(path: Sequence[int]) -> tuple[float, ...] | None:
        calls.append(len(path))
        return None if path else ((0.5, 0.5) if len(calls) < 3 else (1.0, 0.0))

    with pytest.raises(MessageError, match="outcome 1 was possible there before"):
        output_law(Scripted(fickle), ABLE, run)
    with pytest.raises(MessageError, match="expected some above 0"):
        output_law(Scripted(lambda path: None if path else (-1.0, 2.0)), ABLE, run)


def test_missing_decisions_and_abilities(run: Run) -> None:
    class Silent(Scripted):
        def run(self, run: Run) -> RunResult:
            return RunResult(answers=(Answer(tokens=(), finish=Finish.LENGTH),))

    with pytest.raises(MessageError, match="reports no decisions"):
        output_law(Silent(lambda _: None), ABLE, run)
    with pytest.raises(SkippedRunError, match="no injected randomness"):
        output_law(Silent(lambda _: None), Capabilities(name="x", version="1"), run)
