"""A loaded model, whatever its backend: the door through which callers generate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from eredu.contract.backend import GenerationBackend, SpeculativeGenerationBackend
from eredu.contract.capability import MtpCapability
from eredu.contract.constraint import Constraint
from eredu.contract.errors import CapabilityError, OptionError
from eredu.contract.events import Event, EventSink, RequestFinished, TokensCommitted
from eredu.contract.executor import SpeculativeExecutor
from eredu.contract.options import GenerationOptions, MtpSchedulerOptions
from eredu.contract.randomness import RequestRandomness
from eredu.contract.request import GenerationRequest
from eredu.contract.statistics import RequestStatistics, ScheduleStatistics
from eredu.contract.terminal import FinishReason
from eredu.scheduling.run import run_requests
from eredu.scheduling.trace import TraceSink

B_co = TypeVar("B_co", bound=GenerationBackend, covariant=True)
D = TypeVar("D")


@dataclass(frozen=True, kw_only=True)
class PreparedRequest:
    """One prompt of a call, tokenized.

    Attributes:
        prompt: Prompt token ids, at least one.
        options: Its options.
        constraint: Its grammar, before the first output token.
    """

    prompt: Sequence[int]
    options: GenerationOptions = field(default_factory=GenerationOptions)
    constraint: Constraint | None = None


@dataclass(frozen=True)
class GenerationResult:
    """One finished output.

    Attributes:
        tokens: Output ids, a terminal one included.
        text: Visible text; empty where the backend has no tokenizer.
        finish: Why it ended.
        statistics: Its books.
    """

    tokens: tuple[int, ...]
    text: str
    finish: FinishReason
    statistics: RequestStatistics


@dataclass(frozen=True)
class BatchResult:
    """The outputs of one call, in the order of its requests, and the books of their schedule."""

    results: tuple[GenerationResult, ...]
    schedule: ScheduleStatistics


@dataclass(frozen=True)
class LoadedModel(Generic[B_co]):
    """A target on a backend.

    Attributes:
        backend: Prepares executors and lends them for the length of a call.
    """

    backend: B_co

    def mtp_capability(self, drafter: Any = None) -> MtpCapability:
        """What multi-token prediction with this drafter (None: with the target's own heads) would be."""
        if isinstance(self.backend, SpeculativeGenerationBackend):
            return self.backend.mtp_capability(drafter)
        return MtpCapability.unavailable()

    def generate_prepared_chat(
        self,
        requests: Sequence[PreparedRequest],
        *,
        seed: int = 0,
        schedule: MtpSchedulerOptions | None = None,
        sink: EventSink | None = None,
        trace: TraceSink | None = None,
    ) -> BatchResult:
        """Decode plainly: the same pipeline, with no proposals.

        Args:
            requests: Tokenized prompts.
            seed: Root for requests without a seed of their own.
            schedule: How turns are taken.
            sink: Receives every event.
            trace: Receives every action of the scheduler.
        """
        plain = [
            replace(request, options=replace(request.options, max_proposals=0, lookahead_depth=None))
            for request in requests
        ]
        call = _Call(self.backend, plain, seed, schedule, sink, trace)
        return self.backend.lend_plain(call)

    def generate_prepared_chat_mtp(
        self: LoadedModel[SpeculativeGenerationBackend[D]],
        request: PreparedRequest,
        drafter: D | None = None,
        *,
        seed: int = 0,
        schedule: MtpSchedulerOptions | None = None,
        sink: EventSink | None = None,
        trace: TraceSink | None = None,
    ) -> GenerationResult:
        """Decode one prompt with multi-token prediction; arguments as in the batch form."""
        batch = self.generate_prepared_chat_mtp_batch(
            [request], drafter, seed=seed, schedule=schedule, sink=sink, trace=trace
        )
        return batch.results[0]

    def generate_prepared_chat_mtp_batch(
        self: LoadedModel[SpeculativeGenerationBackend[D]],
        requests: Sequence[PreparedRequest],
        drafter: D | None = None,
        *,
        seed: int = 0,
        schedule: MtpSchedulerOptions | None = None,
        sink: EventSink | None = None,
        trace: TraceSink | None = None,
    ) -> BatchResult:
        """Decode prompts with multi-token prediction.

        Args:
            requests: Tokenized prompts.
            drafter: The backend's own type of drafter; None takes the heads in the target's checkpoint.
            seed: Root for requests without a seed of their own.
            schedule: How turns are taken.
            sink: Receives every event.
            trace: Receives every action of the scheduler.

        Raises `TypeError` if the backend has no speculative decoding at all, and `CapabilityError` if it has, but not
        for this model and drafter. It never decodes plainly instead.
        """
        backend: object = self.backend
        if not isinstance(backend, SpeculativeGenerationBackend):
            raise TypeError(
                f"{type(backend).__name__} cannot decode with multi-token prediction: it does not implement "
                "SpeculativeGenerationBackend. Use generate_prepared_chat for plain decoding"
            )
        # rule: capability.no-silent-fallback
        capability = backend.mtp_capability(drafter)
        if not capability.is_ready:
            raise CapabilityError(
                f"multi-token prediction is {capability.to_json()} for this model"
                + (" without a drafter; give an assistant, or decode plainly" if drafter is None else "")
            )
        call = _Call(backend, requests, seed, schedule, sink, trace)
        return backend.lend_speculative(drafter, call)


@dataclass
class _Call:
    """The visitor of one call: runs its requests on the executor that the backend lends."""

    backend: GenerationBackend
    requests: Sequence[PreparedRequest]
    seed: int
    schedule: MtpSchedulerOptions | None
    sink: EventSink | None
    trace: TraceSink | None

    def visit(self, executor: SpeculativeExecutor[Any, Any, Any]) -> BatchResult:
        """Run the schedule and gather what it published."""
        gathered = _Gathered(self.sink)
        scheduler = run_requests(
            executor,
            [self._resolve(index, request) for index, request in enumerate(self.requests)],
            options=self.schedule,
            sink=gathered,
            trace=self.trace,
        )
        results = tuple(gathered.result(index) for index in range(len(self.requests)))
        return BatchResult(results, scheduler.statistics())

    def _resolve(self, index: int, request: PreparedRequest) -> GenerationRequest:
        options = request.options
        if options.eos_ids is None:
            options = replace(options, eos_ids=self.backend.eos_ids)
        text = self.backend.output_text(options.stop_strings)
        if text is None and options.stop_strings:
            raise OptionError(
                "stop_strings need a tokenizer, and this model was loaded without one; use stop_sequences"
            )
        own = options.seed is not None
        return GenerationRequest(
            index=index,
            prompt=tuple(request.prompt),
            options=options,
            randomness=RequestRandomness.from_seed(options.seed or 0)
            if own
            else RequestRandomness.from_batch(self.seed, index),
            constraint=request.constraint,
            text=text,
        )


class _Gathered:
    """Collects events into results, and passes them on."""

    def __init__(self, sink: EventSink | None) -> None:
        self._sink = sink
        self._tokens: dict[int, list[int]] = {}
        self._texts: dict[int, list[str]] = {}
        self._finished: dict[int, RequestFinished] = {}

    def __call__(self, event: Event) -> None:
        match event:
            case TokensCommitted():
                self._tokens.setdefault(event.request, []).extend(event.tokens)
                self._texts.setdefault(event.request, []).append(event.text)
            case RequestFinished():
                self._finished[event.request] = event
        if self._sink is not None:
            self._sink(event)

    def result(self, index: int) -> GenerationResult:
        finished = self._finished[index]
        tokens = tuple(self._tokens.get(index, ()))
        return GenerationResult(tokens, "".join(self._texts.get(index, ())), finished.reason, finished.statistics)
