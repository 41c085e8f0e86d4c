"""A loaded model on any backend, and its prepared calls: what the front door stands on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from eredu.contract.backend import GenerationBackend, SpeculativeGenerationBackend
from eredu.contract.capability import MtpCapability
from eredu.contract.errors import CapabilityError
from eredu.contract.events import EventSink
from eredu.contract.executor import SpeculativeExecutor
from eredu.contract.options import MtpSchedulerOptions
from eredu.prepared import PreparedRequest
from eredu.results import BatchResult, GenerationResult, Outputs, SpeculationReport
from eredu.scheduling.run import run_requests
from eredu.scheduling.trace import TraceSink

B_co = TypeVar("B_co", bound=GenerationBackend, covariant=True)
D = TypeVar("D")


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
        report = SpeculationReport(None, "plain decoding was asked for")
        call = _Call(self.backend, plain, seed, schedule, sink, trace, report)
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
        report = SpeculationReport(capability.checkpoint, "multi-token prediction was asked for")
        call = _Call(backend, requests, seed, schedule, sink, trace, report)
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
    report: SpeculationReport

    def visit(self, executor: SpeculativeExecutor[Any, Any, Any]) -> BatchResult:
        """Run the schedule and gather what it published."""
        outputs = Outputs(self.sink)
        scheduler = run_requests(
            executor,
            [request.resolve(self.backend, index=index, seed=self.seed) for index, request in enumerate(self.requests)],
            options=self.schedule,
            sink=outputs,
            trace=self.trace,
        )
        results = tuple(outputs.result(index, self.report) for index in range(len(self.requests)))
        return BatchResult(results, scheduler.statistics())
