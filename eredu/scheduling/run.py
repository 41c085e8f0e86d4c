"""One call: open the requests, run them to their ends, leave nothing running."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eredu.contract.events import EventSink
from eredu.contract.executor import SpeculativeExecutor
from eredu.contract.options import MtpSchedulerOptions
from eredu.contract.request import GenerationRequest
from eredu.scheduling.scheduler import SpeculativeScheduler
from eredu.scheduling.trace import TraceSink


def run_requests(
    executor: SpeculativeExecutor[Any, Any, Any],
    requests: Iterable[GenerationRequest],
    *,
    options: MtpSchedulerOptions | None = None,
    sink: EventSink | None = None,
    trace: TraceSink | None = None,
) -> SpeculativeScheduler[Any, Any, Any]:
    """Run requests to their ends on an executor and return the scheduler that did, for its results.

    If one of them raises, the others are cancelled, every end is published, and the error is raised again.
    """
    scheduler = SpeculativeScheduler[Any, Any, Any](executor, options=options, sink=sink, trace=trace)
    try:
        for request in requests:
            scheduler.add(request)
        scheduler.run()
    except BaseException as error:
        try:
            scheduler.close()
        except Exception as closing:
            error.add_note(f"cancelling the other requests raised as well: {closing!r}")
        raise
    return scheduler
