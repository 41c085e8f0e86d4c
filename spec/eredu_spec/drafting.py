"""Drafting: the prompt is fed, and a block of proposals is drawn from the drafter's frontier."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from eredu_spec.clipping import clip
from eredu_spec.draws import Memory, Tokens
from eredu_spec.phases import Phase
from eredu_spec.request import Request
from eredu_spec.sites import obeys
from eredu_spec.state import evolve
from eredu_spec.terminal import GRAMMAR

Move = tuple[str, Fraction, Request]
ONE = Fraction(1)


class Drafted(NamedTuple):
    """One way in which a run of proposals can be drawn."""

    tokens: Tokens
    ended: bool
    weight: Fraction
    memory: Memory


@obeys("commit.leading-token-uncached", "scheduling.prefill-in-chunks")
def prefill(request: Request) -> Iterator[Move]:
    """Feed the next chunk of the prompt; its last token is held back to lead the first verification."""
    settings = request.settings
    rows = settings.prompt[: min(len(request.rows) + settings.prefill_chunk, len(settings.prompt) - 1)]
    if len(rows) < len(settings.prompt) - 1:
        yield "scheduling.prefill-in-chunks", ONE, evolve(request, rows=rows)
        return
    depth, reason = clip(settings, request.requested, 0)
    after = evolve(request, rows=rows, phase=Phase.READY_TO_DRAFT, depth=depth, clip=reason)
    yield "commit.leading-token-uncached", ONE, after


@obeys("draft.from-frontier", "draft.empty-block-is-plain", "promotion.top-up", "draft.frontier-exact")
def draft(request: Request) -> Iterator[Move]:
    """Draw the block, or what a promoted one lacks."""
    start = len(request.output)
    for run in proposals(request, request.block, request.depth, start, request.reach):
        name = "draft.empty-block-is-plain" if not run.tokens else "draft.from-frontier"
        if request.reused:
            name = "promotion.top-up"
        yield (
            name,
            run.weight,
            evolve(
                request,
                phase=Phase.READY_TO_SUBMIT,
                block=run.tokens,
                ended=run.ended,
                frontier=len(request.committed) + len(run.tokens),
                clip="grammar" if len(run.tokens) < request.depth else request.clip,
                memory=run.memory,
            ),
        )


@obeys("draft.from-frontier", "draft.recorded-distribution", "constraints.drafting-stops-at-completion")
def proposals(request: Request, prefix: Tokens, count: int, start: int, reach: int) -> list[Drafted]:
    """Draw proposals behind `prefix` until there are `count` or the grammar is complete behind one."""
    model, addresses = request.settings.model, request.settings.addresses
    runs = [Drafted(prefix, request.ended, ONE, request.memory)]
    for index in range(len(prefix), count):
        longer = []
        for run in runs:
            if run.ended:
                longer.append(run)
                continue
            address = addresses.proposal(start, index)
            for token, weight, memory in model.propose(request, run.tokens, reach + index, run.memory, address):
                ended = bool(model.conditions(request.output + run.tokens, token) & GRAMMAR)
                longer.append(Drafted((*run.tokens, token), ended, run.weight * weight, memory))
        runs = longer
    return runs
