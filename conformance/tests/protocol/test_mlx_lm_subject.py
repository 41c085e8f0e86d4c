"""The subject mlx-lm: right where one answer is right, honest about the rest, broken where it is known to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.models import llama

from eredu.checkpoints.names import shipped_path
from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import (
    Answer,
    Checkpoint,
    Finish,
    Ok,
    Request,
    Round,
    Run,
    RunOptions,
    Schedule,
    Skipped,
    attempt,
    smoke,
)
from eredu_conformance.subjects import mlx_lm
from eredu_conformance.subjects.mlx_lm import MlxLmSubject

Ask = Callable[..., Answer]


@pytest.fixture(scope="module")
def subject() -> Iterator[MlxLmSubject]:
    made = MlxLmSubject()
    yield made
    made.stop()


@pytest.fixture
def ask(subject: MlxLmSubject, tmp_path: Path) -> Ask:
    def answer(pair_name: str, options: RunOptions, schedule: Schedule | None = None) -> Answer:
        pair = crafted_pair(pair_name)
        place = pair.write(tmp_path / pair_name)
        run = Run(
            checkpoint=Checkpoint(target=place.target, draft=place.draft),
            requests=(Request(prompt=pair.prompt, options=options),),
            schedule=schedule or Schedule(),
        )
        outcome = attempt(subject, subject.start(), run)
        assert isinstance(outcome, Ok), outcome
        return outcome.result.answers[0]

    return answer


def test_smoke(subject: MlxLmSubject, tmp_path: Path) -> None:
    report = smoke(subject, tmp_path)
    assert report.verdict is None
    assert all(check.passed for check in report.checks), "mlx-lm needs to skip no smoke check"


@pytest.mark.parametrize("depth", [0, 1, 4])
@pytest.mark.parametrize("name", ["table", "ties", "order-2", "lag-5", "counts", "fading", "position"])
def test_greedy_is_the_law(name: str, depth: int, ask: Ask) -> None:
    pair = crafted_pair(name)
    answer = ask(name, RunOptions(max_tokens=40, max_proposals=depth))
    assert answer.tokens == pair.target.greedy_path(pair.prompt, 40)


@pytest.mark.parametrize("name", ["window-4", "window-6", "window-16"])
def test_plain_decoding_slides(name: str, ask: Ask) -> None:
    pair = crafted_pair(name)
    for schedule in (Schedule(), Schedule(prefill_chunk=1)):
        answer = ask(name, RunOptions(max_tokens=40), schedule)
        assert answer.tokens == pair.target.greedy_path(pair.prompt, 40)


@pytest.mark.parametrize("name", ["window-4", "window-6", "window-16"])
def test_released_speculation_breaks_past_the_window(name: str, ask: Ask) -> None:
    """If this fails, mlx-lm was repaired: update the track record."""
    pair = crafted_pair(name)
    answer = ask(name, RunOptions(max_tokens=40, max_proposals=3))
    assert answer.tokens != pair.target.greedy_path(pair.prompt, 40)


def test_end_id_and_statistics(ask: Ask) -> None:
    answer = ask("cycle", RunOptions(max_tokens=20, max_proposals=3, eos_ids=(1,)))
    assert answer == Answer(
        tokens=(4, 5, 6, 7, 0, 1),
        finish=Finish.EOS,
        statistics={"emitted": 6, "accepted": 5, "target_tokens": 1},
        rounds=(Round(proposals=3, emitted=4), Round(proposals=3, emitted=2)),
    )


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_rounds_are_those_of_the_generator(
    depth: int, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reconstruction is held against what mlx-lm feeds to its target: a leading token and a round's proposals."""
    pair = crafted_pair("table")
    target = mlx_lm._model(pair.write(tmp_path / "table").target)
    widths: list[int] = []
    called = llama.Model.__call__

    def spy(self: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
        if self is target:
            widths.append(inputs.shape[1])
        return called(self, inputs, *arguments, **options)

    monkeypatch.setattr(llama.Model, "__call__", spy)
    answer = ask("table", RunOptions(max_tokens=30, max_proposals=depth, temperature=1.0, seed=3))
    assert answer.rounds is not None
    prefills = int(len(pair.prompt) > 1)
    assert [each.proposals + 1 for each in answer.rounds] == widths[prefills : prefills + len(answer.rounds)]
    assert sum(each.emitted for each in answer.rounds) == len(answer.tokens) == 30
    assert depth == 0 or len({each.emitted for each in answer.rounds}) > 1


def test_published_checkpoints(subject: MlxLmSubject, tmp_path: Path) -> None:
    """A directory of any architecture loads; a target that cannot be rolled back takes no proposals, and says so."""
    hybrid = shipped_path("tiny-qwen3.5")
    run = Run(
        checkpoint=Checkpoint(target=hybrid), requests=(Request(prompt=(5, 6), options=RunOptions(max_tokens=3)),)
    )
    outcome = attempt(subject, subject.start(), run)
    assert isinstance(outcome, Ok), outcome
    assert len(outcome.result.answers[0].tokens) == 3
    drafting = RunOptions(max_tokens=3, max_proposals=1)
    pair = Checkpoint(target=hybrid, draft=hybrid)
    outcome = attempt(
        subject, subject.start(), Run(checkpoint=pair, requests=(Request(prompt=(5,), options=drafting),))
    )
    assert isinstance(outcome, Skipped), outcome
    assert "cannot trim" in outcome.reason
    heads = replace(run, checkpoint=Checkpoint(target=hybrid, heads=hybrid))
    assert attempt(subject, subject.start(), heads) == Skipped(reason="mlx-lm has no prediction heads")


def test_seeds(ask: Ask) -> None:
    options = RunOptions(max_tokens=30, temperature=1.0, seed=5, max_proposals=2)
    assert ask("table", options).tokens == ask("table", options).tokens
    other = RunOptions(max_tokens=30, temperature=1.0, seed=6, max_proposals=2)
    assert ask("table", options).tokens != ask("table", other).tokens


def test_declared_absences(subject: MlxLmSubject, tmp_path: Path) -> None:
    place = crafted_pair("table").write(tmp_path)
    checkpoint = Checkpoint(target=place.target, draft=place.draft)
    for options in (RunOptions(stop_sequences=((1,),)), RunOptions(grammar=((),)), RunOptions(lookahead_depth=2)):
        run = Run(checkpoint=checkpoint, requests=(Request(prompt=(0,), options=options),))
        assert isinstance(attempt(subject, subject.start(), run), Skipped)
