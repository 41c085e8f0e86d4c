"""Speculative decoding of one request: a loop over rounds, one step after the other, nothing concurrent.

A branch is drafted between submission and waiting, where a real engine would have time for it. `together` decodes
several requests by these same steps.
"""

from __future__ import annotations

from collections.abc import Callable

from eredu_reference.adaptive import Adaptive
from eredu_reference.decoding import Decoding, Event, Observer, Setting, no_observer
from eredu_reference.drafting import draft_block, draft_branch
from eredu_reference.errors import Cancelled
from eredu_reference.frontier import Frontier
from eredu_reference.groups import submit
from eredu_reference.models import Drafter, Model, feed
from eredu_reference.pieces import PIECES, Pieces, RoundStep
from eredu_reference.prefix import PrefixEntry, PrefixStore, copy_entry
from eredu_reference.report import Report, report_of
from eredu_reference.requests import Request, Schedule
from eredu_reference.resolution import resolve
from eredu_reference.settlement import abandon, cancel, commit, end_round, forget, install, publish
from eredu_reference.sources import RandomSource
from eredu_reference.terminal import Budget, FinishReason


def decode_speculative(
    target: Model,
    drafter: Drafter | None,
    request: Request,
    *,
    schedule: Schedule = Schedule(),  # noqa: B008
    pieces: Pieces = PIECES,
    source: RandomSource | None = None,
    observe: Observer = no_observer,
    events: list[Event] | None = None,
    store: PrefixStore | None = None,
) -> Report:
    """Decode one request with proposals.

    Args:
        target: The model whose law counts.
        drafter: The model that proposes; None proposes nothing.
        request: What is asked.
        schedule: What may be drafted ahead.
        pieces: The engine's parts.
        source: Where random numbers come from; None is the request's own seed.
        observe: Called after every event; may raise `Cancelled` to cancel the request there.
        events: A log to append to; None starts one.
        store: Caches of earlier requests, used and added to; None keeps none.

    Raises whatever a model, a rule or the observer raises; the state that the observer was shown is then the one
    before the round.
    """
    setting = Setting(target, drafter, schedule, pieces, observe, [] if events is None else events)
    state = open_request(setting, request, source)
    try:
        if store is not None:
            restore(setting, state, store)
        prefill(setting, state)
        while state.finish is None:
            run_round(setting, state)
    except Cancelled:
        cancel(setting, state)
    except BaseException:
        abandon(setting, state)
        raise
    if store is not None:
        keep(setting, state, store)
    return report_of(state, setting.events)


def open_request(setting: Setting, request: Request, source: RandomSource | None) -> Decoding:
    """State before anything is fed. Raises `RequestError` for a pair that cannot work together."""
    if setting.drafter is not None:
        setting.pieces.check_pair(setting.target, setting.drafter)
    tokens, by_context = setting.pieces.budget_of(request, setting.target.context)
    return Decoding(
        request=request,
        rule=setting.pieces.choose_rule(request),
        budget=Budget(tokens, FinishReason.CONTEXT if by_context else FinishReason.LENGTH),
        source=setting.pieces.source_of(request) if source is None else source,
        target_cache=setting.target.new_cache(),
        committed=request.prompt,
        frontier=None if setting.drafter is None else Frontier(setting.drafter.model.new_cache()),
        grammar=None if request.constraint is None else request.constraint.start,
        adaptive=Adaptive(setting.schedule.adaptive_window),
    )


def prefill(setting: Setting, state: Decoding) -> None:
    """Feed the prompt but its last token, in chunks."""
    pieces, cache = setting.pieces, state.target_cache
    inputs = pieces.prefill_inputs(state.request.prompt)
    for part in pieces.prefill_chunks(len(cache), len(inputs), setting.schedule.prefill_chunk):
        for index in part:
            output = feed(setting.target, cache, inputs[index], pieces.position_of(index, cache))
            state.hiddens += (output.hidden,)
        cache.settle(len(cache))
        setting.say(state, "prefill", fed=len(part), left=len(inputs) - part.stop)


def run_round(setting: Setting, state: Decoding) -> None:
    """Take the steps of one round, in the order that the rules give."""
    for step in setting.pieces.steps:
        ACTIONS[step](setting, state)
    close_round(setting, state)


def close_round(setting: Setting, state: Decoding) -> None:  # noqa: ARG001
    """Close a round that has been taken to its end."""
    grown = len(state.committed) > state.round.committed
    assert grown or state.finish is not None, "a round that neither emits nor ends would be repeated for ever"
    forget(state)


def wait(setting: Setting, state: Decoding) -> None:
    """Wait for the verification in flight."""
    work = state.round
    assert work.verification is not None, "only what was submitted can be waited for"
    work.outputs = setting.pieces.await_rows(work.verification)
    setting.say(state, "wait", rows=len(work.outputs))


ACTIONS: dict[RoundStep, Callable[[Setting, Decoding], None]] = {
    RoundStep.DRAFT: draft_block,
    RoundStep.SUBMIT: submit,
    RoundStep.BRANCH: draft_branch,
    RoundStep.WAIT: wait,
    RoundStep.RESOLVE: resolve,
    RoundStep.COMMIT: commit,
    RoundStep.INSTALL: install,
    RoundStep.PUBLISH: publish,
    RoundStep.END: end_round,
}
"""What each step of a round does."""


def restore(setting: Setting, state: Decoding, store: PrefixStore) -> None:
    """Start from the longest entry of the store that serves the prompt."""
    found = [setting.pieces.restore_prefix(entry, state.request.prompt) for entry in store.entries]
    entries = [entry for entry in found if entry is not None]
    if not entries:
        return
    entry = max(entries, key=lambda item: len(item.tokens))
    state.target_cache, state.hiddens = entry.cache, entry.hiddens
    if state.frontier is not None and entry.frontier is not None:
        state.frontier = entry.frontier
    setting.say(state, "restore", length=len(state.target_cache))


def keep(setting: Setting, state: Decoding, store: PrefixStore) -> None:
    """Leave the caches of a finished request for later ones."""
    proposals = state.reports[-1].proposals if state.reports else ()
    inputs = setting.pieces.stored_inputs(state.committed, proposals)
    entry = PrefixEntry(inputs, state.target_cache, state.hiddens, state.frontier)
    store.entries.append(copy_entry(entry))
