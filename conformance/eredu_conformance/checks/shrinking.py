"""Making a failing trial smaller while it still fails: what is left is what somebody has to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from eredu_conformance.checks.finding import CheckFailure
from eredu_conformance.checks.trial import Trial
from eredu_conformance.protocol import Request, Schedule, SkippedRunError


def shrink(trial: Trial, fails: Callable[[Trial], bool], *, most_attempts: int) -> Trial:
    """The smallest failing trial that greedy reductions find.

    Args:
        trial: Fails.
        fails: Whether a smaller trial fails in the same way. One that can't be run, which raises, doesn't.
        most_attempts: Bound on the calls of `fails`.
    """
    attempts = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _reductions(trial):
            if attempts == most_attempts:
                return trial
            attempts += 1
            with suppress(SkippedRunError, CheckFailure, ValueError):
                smaller = fails(candidate)
            if smaller:
                trial = candidate
                break
    return trial


def _reductions(trial: Trial) -> Iterator[Trial]:
    """Smaller trials, the boldest first."""
    count = len(trial.requests)
    if count > 1:
        for index in range(count):
            yield replace(trial, requests=(trial.requests[index],))
        yield replace(trial, requests=trial.requests[: count // 2])
        yield replace(trial, requests=trial.requests[count // 2 :])
    if trial.schedule.asked():
        yield replace(trial, schedule=Schedule())
    if count == 1:
        for request in _smaller_requests(trial, trial.requests[0]):
            yield replace(trial, requests=(request,))


def _smaller_requests(trial: Trial, request: Request) -> Iterator[Request]:
    options, prompt = request.options, request.prompt
    for tokens in dict.fromkeys((options.max_tokens // 2, options.max_tokens - 4, options.max_tokens - 1)):
        if 0 < tokens < options.max_tokens:
            yield replace(request, options=replace(options, max_tokens=tokens))
    for proposals in dict.fromkeys((1, options.max_proposals // 2, options.max_proposals - 1)):
        if 0 < proposals < options.max_proposals:
            yield replace(request, options=replace(options, max_proposals=proposals))
    start = trial.pair.target.prompt_start
    for drop in dict.fromkeys((len(prompt) // 2, 2, 1)):
        shorter = start + prompt[len(start) + drop :]
        if drop and len(shorter) >= max(trial.pair.target.history_min, trial.pair.draft.history_min):
            yield replace(request, prompt=shorter)
