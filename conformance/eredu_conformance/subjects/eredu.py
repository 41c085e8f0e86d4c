"""The subject eredu: the library through its public calls, one batch call a run.

A run in which requests are cancelled needs the scheduler itself, which the batch call does not hand out; it borrows
the backend's executor as any visitor may, and drives the public `SpeculativeScheduler`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from eredu import __version__
from eredu.checkpoints.opening import open_checkpoint
from eredu.contract.errors import OptionError
from eredu.contract.events import Event, RequestFinished, TokensCommitted
from eredu.contract.executor import SpeculativeExecutor
from eredu.contract.options import (
    MAX_PROPOSALS,
    AcceptanceRule,
    GenerationOptions,
    MtpSchedulerOptions,
    SamplingOptions,
)
from eredu.contract.randomness import RequestRandomness
from eredu.contract.request import GenerationRequest
from eredu.engine.load import load_assistant, load_target
from eredu.engine.mlx_backend import Assistant, MlxBackend
from eredu.loaded import LoadedModel
from eredu.prepared import PreparedRequest
from eredu.scheduling.round_log import RoundLog
from eredu.scheduling.scheduler import SpeculativeScheduler
from eredu_conformance.harness.automaton import automaton_constraint
from eredu_conformance.harness.grammar_state import GrammarState
from eredu_conformance.protocol.capabilities import Capabilities, Feature
from eredu_conformance.protocol.errors import SkippedRunError
from eredu_conformance.protocol.options import Acceptance, RunOptions, Schedule
from eredu_conformance.protocol.run import Answer, Finish, Request, Round, Run, RunResult

MAX_BATCH = 1024
"""No limit of the scheduler's: a bound on what one run of the suite may ask."""


class EreduSubject:
    """eredu as it is installed, on MLX's default device.

    Injected randomness is not declared: eredu has no public hook for it, and its laws are tested by sampling.

    Args:
        placement: How target and drafter share the machine, as in `eredu.load`.
    """

    def __init__(self, placement: str = "auto") -> None:
        self._placement = placement

    def start(self) -> Capabilities:
        """Declare what the installed eredu has."""
        return Capabilities(
            name="eredu",
            version=__version__,
            architectures=frozenset({"llama", "qwen3"}),
            features=frozenset(Feature) - {Feature.CHOICES},
            options=frozenset(RunOptions.__dataclass_fields__) | frozenset(Schedule.__dataclass_fields__),
            acceptance=Acceptance.specified(),
            max_proposals=MAX_PROPOSALS,
            max_batch=MAX_BATCH,
        )

    def run(self, run: Run) -> RunResult:
        """Decode all requests of a run in one call."""
        if run.choices is not None:
            raise SkippedRunError("eredu takes no injected randomness")
        model = _model(run.checkpoint.target, run.checkpoint.heads, self._placement)
        drafter = _assistant(run.checkpoint.draft) if run.speculates and run.checkpoint.draft else None
        if run.speculates and not (capability := model.mtp_capability(drafter)).is_ready:
            raise SkippedRunError(f"multi-token prediction is {capability.to_json()} for this model and drafter")
        trace: list[dict[str, Any]] = []
        try:
            call = _Call(run, [_prepare(request, model) for request in run.requests], trace)
            answers = call.answers(model, drafter)
        except OptionError as error:
            # Only what was refused before anything ran is a skip: any other error is the engine's, and a finding.
            raise SkippedRunError(str(error)) from error
        return RunResult(answers=answers, trace=tuple(trace))

    def stop(self) -> None:
        """Forget the loaded models."""
        _model.cache_clear()
        _assistant.cache_clear()


def one_stream() -> EreduSubject:
    """Target and drafter on one stream."""
    return EreduSubject("one-stream")


def two_streams() -> EreduSubject:
    """A stream each for target and drafter."""
    return EreduSubject("two-streams")


def two_devices() -> EreduSubject:
    """The target on the accelerator, the drafter on the CPU."""
    return EreduSubject("two-devices")


@lru_cache(maxsize=128)
def _model(target: Path, heads: Path | None, placement: str) -> LoadedModel[MlxBackend]:
    """The target with the heads that a run names, and no others."""
    beside = None if heads == target else heads
    return load_target(target, placement=placement, head=beside, with_heads=heads is not None)


@lru_cache(maxsize=128)
def _assistant(draft: Path) -> Assistant:
    return load_assistant(draft, tokenizer=open_checkpoint(draft).tokenizer)


def _prepare(request: Request, model: LoadedModel[MlxBackend]) -> PreparedRequest:
    options, grammar = request.options, request.options.grammar
    rule = options.acceptance or Acceptance.REJECTION
    if rule is Acceptance.MATCHING:
        raise SkippedRunError("eredu doesn't have the acceptance rule matching")
    constraint = None
    if grammar is not None:
        constraint = GrammarState.before(automaton_constraint(grammar, model.backend.target.vocabulary_size))
    return PreparedRequest(
        prompt=request.prompt,
        options=GenerationOptions(
            max_tokens=options.max_tokens,
            sampling=_sampling(options),
            seed=options.seed,
            acceptance=AcceptanceRule(rule.value),
            max_proposals=options.max_proposals,
            lookahead_depth=options.lookahead_depth,
            eos_ids=frozenset(options.eos_ids),
            stop_sequences=options.stop_sequences,
        ),
        constraint=constraint,
    )


def _sampling(options: RunOptions) -> SamplingOptions:
    names = SamplingOptions.__dataclass_fields__
    shared: dict[str, Any] = {name: getattr(options, name) for name in names if name != "logit_bias"}
    return SamplingOptions(logit_bias=dict(options.logit_bias), **shared)


def _schedule(schedule: Schedule) -> MtpSchedulerOptions:
    counts = ("adaptive_window", "prefill_chunk", "max_in_flight", "max_branches", "max_group")
    given = {name: value for name in counts if (value := getattr(schedule, name)) is not None}
    return MtpSchedulerOptions(lookahead=schedule.lookahead, adaptive_lookahead=schedule.adaptive_lookahead, **given)


def _rounds(trace: Sequence[dict[str, Any]]) -> dict[int, tuple[Round, ...]]:
    """The committed rounds of each request."""
    log = RoundLog()
    for event in trace:
        log(event)
    return {
        request: tuple(Round(proposals=each.proposals, emitted=each.emitted, promoted=each.promoted) for each in rounds)
        for request, rounds in log.rounds.items()
    }


@dataclass
class _Call:
    """One call of eredu, by the front door or, where requests are cancelled, on a borrowed executor."""

    run: Run
    requests: Sequence[PreparedRequest]
    trace: list[dict[str, Any]]

    def answers(self, model: LoadedModel[MlxBackend], drafter: Assistant | None) -> tuple[Answer, ...]:
        """Answers in the order of the requests."""
        if any(request.cancel_after is not None for request in self.run.requests):
            if not self.run.speculates:
                return model.backend.lend_plain(self)
            return model.backend.lend_speculative(drafter, self)
        arguments: dict[str, Any] = {
            "seed": self.run.seed or 0,
            "schedule": _schedule(self.run.schedule),
            "trace": self.trace.append,
        }
        if self.run.speculates:
            batch = model.generate_prepared_chat_mtp_batch(self.requests, drafter, **arguments)
        else:
            batch = model.generate_prepared_chat(self.requests, **arguments)
        rounds = _rounds(self.trace)
        return tuple(
            Answer(
                tokens=one.tokens,
                finish=Finish(one.finish.value),
                statistics=one.statistics.to_json(),
                rounds=rounds[index],
            )
            for index, one in enumerate(batch.results)
        )

    def visit(self, executor: SpeculativeExecutor[Any, Any, Any]) -> tuple[Answer, ...]:
        """Run the requests, cancelling each when it has published what its `cancel_after` says."""
        watch = _Cancelling(self.run.requests)
        scheduler = SpeculativeScheduler[Any, Any, Any](
            executor, options=_schedule(self.run.schedule), sink=watch, trace=self.trace.append
        )
        watch.scheduler = scheduler
        try:
            for index in range(len(self.requests)):
                scheduler.add(self._resolve(index))
                watch.cancel_if_due(index)
            scheduler.run()
        finally:
            scheduler.close()
        return tuple(watch.answer(index) for index in range(len(self.requests)))

    def _resolve(self, index: int) -> GenerationRequest:
        request = self.requests[index]
        seed = request.options.seed
        return GenerationRequest(
            index=index,
            prompt=tuple(request.prompt),
            options=request.options,
            randomness=RequestRandomness.from_batch(self.run.seed or 0, index)
            if seed is None
            else RequestRandomness.from_seed(seed),
            constraint=request.constraint,
        )


@dataclass
class _Cancelling:
    """An event sink that keeps what was published and cancels requests from inside the callback."""

    requests: Sequence[Request]
    scheduler: SpeculativeScheduler[Any, Any, Any] | None = None
    tokens: dict[int, list[int]] = field(default_factory=dict)
    ends: dict[int, RequestFinished] = field(default_factory=dict)

    def __call__(self, event: Event) -> None:
        """Take one event."""
        match event:
            case TokensCommitted():
                self.tokens.setdefault(event.request, []).extend(event.tokens)
                self.cancel_if_due(event.request)
            case RequestFinished():
                self.ends[event.request] = event

    def cancel_if_due(self, index: int) -> None:
        """Cancel a request that has published enough."""
        due = self.requests[index].cancel_after
        if due is not None and self.scheduler is not None and len(self.tokens.get(index, ())) >= due:
            self.scheduler.cancel(index)

    def answer(self, index: int) -> Answer:
        """What a request got."""
        end = self.ends[index]
        statistics: Mapping[str, Any] = end.statistics.to_json()
        return Answer(tokens=tuple(self.tokens.get(index, ())), finish=Finish(end.reason.value), statistics=statistics)
