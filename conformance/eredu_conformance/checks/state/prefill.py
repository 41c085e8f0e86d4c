"""Prefill: chunks of any size, and runs behind other runs, leave the same state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from eredu_conformance.checks.bench import Bench
from eredu_conformance.checks.check import Check, Evidence, Kind, Needs, Tier
from eredu_conformance.checks.comparing import greedy_due, require_equal
from eredu_conformance.checks.state.forced import SENSITIVE, forced_pair
from eredu_conformance.checks.trial import Trial
from eredu_conformance.protocol import Request, RunOptions, Schedule

CHUNKS = (1, 2, 3, 5, 8, 19)
PROMPT, TOKENS = 20, 6
QUICK = ("order-2", "window-6")


def checks() -> Iterator[Check]:
    """One check of chunks and one of warmth for each sensitive pair, without and with proposals."""
    for name in SENSITIVE:
        for depth in (0, 2):
            yield Check(
                id=f"state.chunk-invariance/{name}/k{depth}",
                rule="scheduling.prefill-in-chunks",
                kind=Kind.STATE,
                tier=Tier.QUICK if name in QUICK and depth else Tier.STANDARD,
                about=f"A prompt of {PROMPT} tokens fed in chunks of any size is followed by the law's tokens.",
                needs=Needs(proposals=depth, options=frozenset({"prefill_chunk"})),
                run=partial(_chunks, name, depth),
            )
        yield Check(
            id=f"state.warm-equals-cold/{name}",
            rule="rollback.exact-state",
            kind=Kind.STATE,
            tier=Tier.QUICK if name in QUICK else Tier.STANDARD,
            about="A run behind runs of the same and of longer prompts gives the tokens of the first.",
            needs=Needs(proposals=2),
            run=partial(_warm, name),
        )


def _chunks(name: str, depth: int, bench: Bench, seed: int) -> Evidence:  # noqa: ARG001
    pair = forced_pair(name, 1)
    prompt = pair.prompt + pair.target.greedy_path(pair.prompt, PROMPT - len(pair.prompt))
    request = Request(prompt=prompt, options=RunOptions(max_tokens=TOKENS, max_proposals=depth))
    compared = 0
    for chunk in CHUNKS:
        trial = Trial(pair=pair, requests=(request,), schedule=Schedule(prefill_chunk=chunk))
        compared += require_equal(
            bench, trial, greedy_due, what=f"a prompt fed in chunks of {chunk} and the law's argmax"
        )
    return Evidence(text=f"chunks of {', '.join(map(str, CHUNKS))}: {compared} tokens equal")


def _warm(name: str, bench: Bench, seed: int) -> Evidence:  # noqa: ARG001
    """First, longer prompts that begin with it, another prompt, the first again, with and without proposals."""
    pair = forced_pair(name, 0)
    path = pair.target.greedy_path(pair.prompt, 12)
    prompts = [pair.prompt, pair.prompt + path[:5], pair.prompt + path[:11], pair.prompt + path[-1:], pair.prompt]
    compared = 0
    for prompt in prompts:
        for depth in (2, 0) if prompt == pair.prompt else (2,):
            request = Request(prompt=prompt, options=RunOptions(max_tokens=2 * TOKENS, max_proposals=depth))
            trial = replace(Trial(pair=pair, requests=(request,)))
            compared += require_equal(bench, trial, greedy_due, what="a run behind other runs and the law's argmax")
    return Evidence(text=f"{len(prompts) + 2} runs behind each other, {compared} tokens equal")
