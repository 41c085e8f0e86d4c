"""Traces of the engine on tiny MLX pairs, and the suite's own check of traces on the subject eredu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eredu.contract.options import AcceptanceRule, GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.engine.checkpoint import load_checkpoint
from eredu.engine.mlx_backend import Assistant, MlxBackend
from eredu.loaded import LoadedModel
from eredu.mlx.placement import Placement
from eredu.prepared import PreparedRequest
from eredu_conformance.checks.check import Kind
from eredu_conformance.checks.finding import CheckFailure
from eredu_conformance.checks.registry import all_checks
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.harness.tiny_models import TinyDecoder
from eredu_conformance.protocol import Capabilities, Run, RunResult
from eredu_conformance.subjects.eredu import EreduSubject
from eredu_spec.trace import check

Decode = Callable[..., list[dict[str, Any]]]
CHECKS = [each for each in all_checks() if each.kind is Kind.TRACE]


@pytest.fixture(scope="module")
def decode(tmp_path_factory: pytest.TempPathFactory) -> Decode:
    """Decode three prompts with a tiny pair, and return the trace."""
    decoder = TinyDecoder(vocabulary=40, layers=1, seed=9)
    target, draft = (
        load_checkpoint(each.write(tmp_path_factory.mktemp("tiny")), tokenizer=None)
        for each in (decoder, decoder.noisy(0.08))
    )
    model = LoadedModel(MlxBackend(target, Placement.choose()))

    def run(options: GenerationOptions, schedule: MtpSchedulerOptions) -> list[dict[str, Any]]:
        trace: list[dict[str, Any]] = []
        requests = [
            PreparedRequest(prompt=(1, 2, 3, 4)[: 2 + n], options=replace(options, seed=n, max_tokens=24 - n))
            for n in range(3)
        ]
        model.generate_prepared_chat_mtp_batch(requests, Assistant(draft), schedule=schedule, trace=trace.append)
        return trace

    return run


# rule: commit.order, rollback.exact-length
@pytest.mark.parametrize("rule", [None, *AcceptanceRule])
@pytest.mark.parametrize(
    "schedule",
    [
        MtpSchedulerOptions(lookahead=False),
        MtpSchedulerOptions(adaptive_lookahead=False),
        MtpSchedulerOptions(adaptive_window=1, max_in_flight=2, max_branches=1, prefill_chunk=1),
    ],
    ids=["alone", "lookahead", "adaptive"],
)
def test_a_tiny_pair_writes_a_run_of_the_machine(
    decode: Decode, rule: AcceptanceRule | None, schedule: MtpSchedulerOptions
) -> None:
    sampling = SamplingOptions(temperature=0.0 if rule is None else 0.8)
    options = GenerationOptions(
        sampling=sampling, acceptance=rule or AcceptanceRule.REJECTION, max_proposals=3, eos_ids=frozenset({7})
    )
    trace = decode(options, schedule)
    finding = check(trace, is_complete=True)
    assert finding is None, finding
    assert any(event["event"] == "branch" for event in trace) == schedule.lookahead


def test_every_situation_has_a_check_of_each_rule() -> None:
    assert len(CHECKS) == 13 * 3 * 4 + 4  # and lookahead by a draft with a context of its own
    assert len({each.rule for each in CHECKS}) == 13


class Doctored(EreduSubject):
    """eredu, whose traces somebody edited."""

    def __init__(self, doctor: Callable[[list[dict[str, Any]]], Any]) -> None:
        super().__init__()
        self.doctor = doctor

    def run(self, run: Run) -> RunResult:
        result = super().run(run)
        assert result.trace is not None
        events = [dict(event) for event in result.trace]
        self.doctor(events)
        return replace(result, trace=tuple(events))


def judge(subject: EreduSubject, name: str, directory: Path) -> str:
    capabilities: Capabilities = subject.start()
    (chosen,) = [each for each in CHECKS if each.id == name]
    assert chosen.needs.obstacle(capabilities) is None
    return chosen.run(SubjectSession(subject, capabilities, directory), 0).text


def test_the_check_passes_eredu(tmp_path: Path) -> None:
    assert "follow the machine" in judge(EreduSubject(), "trace.lookahead/table-near/rejection", tmp_path)


def shorten_a_cache(events: list[dict[str, Any]]) -> None:
    for event in events:
        if event["event"] == "commit":
            event["cache_length"] -= 1


def forget_the_commits(events: list[dict[str, Any]]) -> None:
    events[:] = [event for event in events if event["event"] != "commit"]


def publish_another_token(events: list[dict[str, Any]]) -> None:
    for event in events:
        for field in ("tokens", "emitted"):
            if field in event:
                event[field] = [token + 1 for token in event[field]]


@pytest.mark.parametrize(
    ("doctor", "said"),
    [
        (shorten_a_cache, "breaks rollback.exact-length"),
        (forget_the_commits, "breaks events.after-commit"),
        (publish_another_token, "by its trace and"),
        (list.clear, "by its trace and"),
        (lambda events: events[0].pop("budget"), "not written as trace.md says"),
    ],
)
def test_the_check_finds_what_a_trace_says_wrongly(
    doctor: Callable[[list[dict[str, Any]]], Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckFailure) as caught:
        judge(Doctored(doctor), "trace.rounds/table-near/greedy", tmp_path)
    counterexample = caught.value.counterexample
    assert said in counterexample.message
    assert len(counterexample.case["requests"]) == 1, "it was not made smaller"


# rule: cancellation.from-callback, cancellation.leaves-no-trace
def test_a_trace_of_a_request_cancelled_from_its_callback(tmp_path: Path) -> None:
    assert "follow" in judge(EreduSubject(), "trace.cancelled/order-2/block", tmp_path)
