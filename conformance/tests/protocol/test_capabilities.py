"""A declaration decides what is asked: each undeclared thing is skipped, with a reason that names it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import (
    Acceptance,
    Answer,
    Capabilities,
    Checkpoint,
    Errored,
    Feature,
    Finish,
    MessageError,
    Request,
    Run,
    RunOptions,
    RunResult,
    Schedule,
    Skipped,
    attempt,
)
from eredu_conformance.protocol.messages import OPTION_READERS, SCHEDULE_READERS

BARE = Capabilities(name="bare", version="1")
ABLE = Capabilities(
    name="able",
    version="1",
    architectures=frozenset({"llama", "qwen3"}),
    features=frozenset(Feature),
    options=frozenset(OPTION_READERS) | frozenset(SCHEDULE_READERS),
    acceptance=tuple(Acceptance),
    max_proposals=8,
    max_batch=4,
)


@pytest.fixture
def plain(tmp_path: Path) -> Run:
    place = crafted_pair("table").write(tmp_path / "plain")
    return Run(checkpoint=Checkpoint(target=place.target, draft=place.draft), requests=(Request(prompt=(0,)),))


def asking(run: Run, **options: object) -> Run:
    return replace(run, requests=(Request(prompt=(0,), options=RunOptions(**options)),))  # type: ignore[arg-type]


def test_a_plain_run_asks_nothing(plain: Run) -> None:
    assert BARE.obstacle(plain) is None
    assert BARE.obstacle(asking(plain, max_tokens=3)) is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"temperature": 1.0}, "doesn't support temperature"),
        ({"top_k": 2}, "doesn't support top_k"),
        ({"seed": 1}, "doesn't support seed"),
        ({"lookahead_depth": 3}, "doesn't support lookahead_depth"),
        ({"stop_sequences": ((1,),)}, "doesn't support stop_sequences"),
        ({"grammar": (((0, 0),),)}, "doesn't support grammar"),
        ({"max_proposals": 1}, "up to 0 proposals, not 1"),
        ({"acceptance": Acceptance.BLOCK}, "rule block"),
    ],
)
def test_options(plain: Run, options: dict[str, object], reason: str) -> None:
    run = asking(plain, **options)
    obstacle = BARE.obstacle(run)
    assert obstacle is not None
    assert reason in obstacle
    assert ABLE.obstacle(run) is None


def test_calls(plain: Run) -> None:
    request = plain.requests[0]
    cases = {
        "1 requests a run, not 2": replace(plain, requests=(request, request)),
        "no injected randomness": replace(plain, choices=(0,)),
        "no seeds": replace(plain, seed=3),
        "can't cancel": replace(plain, requests=(replace(request, cancel_after=1),)),
        "doesn't support lookahead": replace(plain, schedule=Schedule(lookahead=True)),
        "doesn't support prefill_chunk": replace(plain, schedule=Schedule(prefill_chunk=2)),
    }
    for reason, run in cases.items():
        assert reason in (BARE.obstacle(run) or "")
        assert ABLE.obstacle(run) is None
    draftless = replace(asking(plain, max_proposals=2), checkpoint=Checkpoint(target=plain.checkpoint.target))
    assert "names no draft" in (ABLE.obstacle(draftless) or "")


def test_published_checkpoints(plain: Run, tmp_path: Path) -> None:
    file = replace(plain, checkpoint=Checkpoint(target=tmp_path / "model.gguf"))
    file.checkpoint.target.touch()
    assert "loads directories only" in (BARE.obstacle(file) or "")
    assert ABLE.obstacle(file) is None
    here = plain.checkpoint.target
    heads = replace(asking(plain, max_proposals=2), checkpoint=Checkpoint(target=here, heads=here))
    assert BARE.checkpoint_obstacle(heads.checkpoint) == "bare has no prediction heads"
    assert ABLE.obstacle(heads) is None
    with pytest.raises(MessageError, match="two drafters"):
        Checkpoint(target=here, draft=here, heads=here)


def test_checkpoints(plain: Run, tmp_path: Path) -> None:
    for name, reason in (("path", "architecture qwen3"), ("window-4", "sliding windows")):
        run = replace(plain, checkpoint=Checkpoint(target=crafted_pair(name).write(tmp_path / name).target))
        assert reason in (BARE.obstacle(run) or "")
        assert ABLE.obstacle(run) is None


class Untouchable:
    """Fails the test if it is asked; else answers with too little."""

    def __init__(self, answers: int | None) -> None:
        self.answers = answers

    def start(self) -> Capabilities:
        return BARE

    def run(self, run: Run) -> RunResult:
        assert self.answers is not None, "asked for what it never declared"
        return RunResult(answers=(Answer(tokens=(), finish=Finish.LENGTH),) * self.answers)

    def stop(self) -> None:
        pass


def test_attempt_asks_only_what_is_declared(plain: Run) -> None:
    skipped = attempt(Untouchable(None), BARE, asking(plain, top_k=2))
    assert skipped == Skipped(reason="bare doesn't support top_k")
    errored = attempt(Untouchable(None), BARE, plain)
    assert isinstance(errored, Errored)
    assert errored.message.startswith("AssertionError: asked for")
    assert "Traceback" in errored.detail


def test_attempt_counts_answers(plain: Run) -> None:
    outcome = attempt(Untouchable(2), BARE, plain)
    assert outcome == Errored(message="the run has 1 requests and got 2 answers")
