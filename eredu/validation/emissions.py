"""From prompts to evidence: decode with speculation, force the outputs on the plain path, and pair tokens with rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from eredu.events import Event, TokensCommitted
from eredu.evidence import Block, Emission, Stratum, strata_of
from eredu.loaded import PreparedRequest
from eredu.statistics import RequestStatistics
from eredu.validation.forcing import Rows, TargetReading, Text, assistant_logits, head_logits, processed, read_target
from eredu.validation.foreign import ForeignEngine, foreign_outputs
from eredu.validation.rounds import RoundLog
from eredu.validation.subject import Subject


@dataclass(frozen=True)
class Draw:
    """What one batch of requests gave.

    Attributes:
        emissions: Its tokens, request by request.
        statistics: The books of all its requests together.
    """

    emissions: tuple[Emission, ...]
    statistics: RequestStatistics


def request_seed(seed: int, part: int, request: int) -> int:
    """Root of one request's randomness: requests of one run never share any."""
    digest = hashlib.sha256(f"eredu validate {seed} {part} {request}".encode()).digest()
    return int.from_bytes(digest[:8])


def draw_batch(
    subject: Subject,
    prompts: Sequence[Sequence[int]],
    *,
    first: int,
    seeds: Sequence[int],
    on_tokens: Callable[[int], None] = lambda _: None,
) -> Draw:
    """Decode requests `first`, `first` + 1, … of a run, one a prompt, and recompute the rows of all they emitted.

    Args:
        subject: Decodes.
        prompts: Encoded prompts.
        first: Number of the first request within the run.
        seeds: Root of each request.
        on_tokens: Is told how many tokens were committed, as they are.
    """
    if subject.engine is not None:
        return _draw_foreign(subject, subject.engine, prompts, first=first, seeds=seeds, on_tokens=on_tokens)
    requests = [
        PreparedRequest(prompt=tuple(prompt), options=replace(subject.options, seed=seed))
        for prompt, seed in zip(prompts, seeds, strict=True)
    ]

    def sink(event: Event) -> None:
        if isinstance(event, TokensCommitted):
            on_tokens(len(event.tokens))

    rounds = RoundLog()
    batch = subject.decode(requests, sink=sink, trace=rounds)
    emissions: list[Emission] = []
    for index, (request, result) in enumerate(zip(requests, batch.results, strict=True)):
        text = Text(request.prompt, result.tokens)
        emissions += emissions_of(subject, text, rounds.blocks[index], request=first + index)
    return Draw(tuple(emissions), RequestStatistics.total(result.statistics for result in batch.results))


def _draw_foreign(
    subject: Subject,
    engine: ForeignEngine,
    prompts: Sequence[Sequence[int]],
    *,
    first: int,
    seeds: Sequence[int],
    on_tokens: Callable[[int], None],
) -> Draw:
    outputs = foreign_outputs(
        engine,
        prompts,
        seeds=seeds,
        max_tokens=subject.options.max_tokens,
        vocabulary=subject.target.vocabulary_size,
        on_tokens=on_tokens,
    )
    emissions: list[Emission] = []
    for index, (tokens, blocks) in enumerate(outputs):
        emissions += emissions_of(subject, Text(tuple(prompts[index]), tokens), blocks, request=first + index)
    return Draw(tuple(emissions), RequestStatistics())


def emissions_of(subject: Subject, text: Text, blocks: Sequence[Block], *, request: int) -> list[Emission]:
    """Tokens of one output with the rows that they should have been drawn from."""
    strata = strata_of(blocks)
    sampling = subject.options.sampling
    reading = read_target(subject.target, text, subject.heads, prompts=subject.prompts)
    target = processed(reading.logits, sampling, text)
    plain = replace(type(sampling)(), temperature=sampling.temperature)
    unmasked = None if plain == sampling else processed(reading.logits, plain, text)
    draft, known = draft_rows(subject, text, reading, strata)
    said = text.tokens
    return [
        Emission(
            token=token,
            target=target[place],
            stratum=strata[place],
            request=request,
            position=place,
            recent=tuple(said[: len(text.prompt) + place][-2:]),
            draft=draft[place] if known[place] else None,
            lagged=target[place - 1] if place else None,
            unmasked=None if unmasked is None else unmasked[place],
        )
        for place, token in enumerate(text.output)
    ]


def draft_rows(
    subject: Subject, text: Text, reading: TargetReading, strata: Sequence[Stratum]
) -> tuple[Rows, NDArray[np.bool_]]:
    """The drafter's processed rows, shape (output tokens, vocabulary), and which of them are known.

    Heads draft another row at each depth of a block; for a token without a proposal it is the row of the deepest
    proposal that they could have made for it.
    """
    count = len(text.output)
    if subject.draft is not None:
        made = assistant_logits(subject.draft, text, prompts=subject.prompts)
        known = np.arange(count) < made.shape[0]
        logits = mx.concatenate([made, mx.zeros((count - made.shape[0], made.shape[1]))])
    elif subject.heads is not None and reading.hidden is not None and subject.depth > 0:
        depths = [min(stratum.offset, subject.depth - 1) for stratum in strata]
        logits, known = head_logits(subject.target, subject.heads, text, reading.hidden, depths)
    else:
        return np.zeros((count, subject.target.vocabulary_size)), np.zeros(count, dtype=np.bool_)
    return processed(logits, subject.options.sampling, text), known
