"""From prompts to evidence: decode with speculation, force the outputs on the plain path, and pair tokens with rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from eredu.contract.events import Event, TokensCommitted
from eredu.prepared import PreparedRequest
from eredu.scheduling.round_log import RoundLog
from eredu_validation.evidence import Columns, Emission, Round, Stratum, columns_of, strata_of
from eredu_validation.foreign.answers import ForeignEngine, foreign_outputs
from eredu_validation.measures.plain_rows import (
    Rows,
    TargetReading,
    Text,
    assistant_logits,
    head_logits,
    processed,
    read_target,
)
from eredu_validation.measures.subject import Subject


@dataclass(frozen=True)
class RequestOutput:
    """What one request emitted.

    Attributes:
        request: Its number within the run.
        text: Its prompt and tokens.
        rounds: Its rounds, in order.
    """

    request: int
    text: Text
    rounds: Sequence[Round]


def request_seed(seed: int, part: int, request: int) -> int:
    """Root of one request's randomness: requests of one run never share any."""
    digest = hashlib.sha256(f"eredu validate {seed} {part} {request}".encode()).digest()
    return int.from_bytes(digest[:8])


def decode_batch(
    subject: Subject,
    prompts: Sequence[Sequence[int]],
    *,
    first: int,
    seeds: Sequence[int],
    on_tokens: Callable[[int], None] = lambda _: None,
) -> list[RequestOutput]:
    """Decode requests `first`, `first` + 1, … of a run, one a prompt.

    Args:
        subject: Decodes.
        prompts: Encoded prompts.
        first: Number of the first request within the run.
        seeds: Root of each request.
        on_tokens: Is told how many tokens were committed, as they are.
    """
    if subject.engine is not None:
        drawn = _decode_elsewhere(subject, subject.engine, prompts, seeds, on_tokens)
    else:
        drawn = _decode_here(subject, prompts, seeds, on_tokens)
    return [
        RequestOutput(first + index, Text(tuple(prompt), tokens), rounds)
        for index, (prompt, (tokens, rounds)) in enumerate(zip(prompts, drawn, strict=True))
    ]


Drawn = Iterable[tuple[Sequence[int], Sequence[Round]]]
"""Tokens and rounds of each request."""


def _decode_here(
    subject: Subject, prompts: Sequence[Sequence[int]], seeds: Sequence[int], on_tokens: Callable[[int], None]
) -> Drawn:
    requests = [
        PreparedRequest(prompt=tuple(prompt), options=replace(subject.options, seed=seed))
        for prompt, seed in zip(prompts, seeds, strict=True)
    ]

    def sink(event: Event) -> None:
        if isinstance(event, TokensCommitted):
            on_tokens(len(event.tokens))

    log = RoundLog()
    batch = subject.decode(requests, sink=sink, trace=log)
    return [
        (result.tokens, [Round(**asdict(each)) for each in log.rounds[index]])
        for index, result in enumerate(batch.results)
    ]


def _decode_elsewhere(
    subject: Subject,
    engine: ForeignEngine,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[int],
    on_tokens: Callable[[int], None],
) -> Drawn:
    return foreign_outputs(
        engine,
        prompts,
        seeds=seeds,
        max_tokens=subject.options.max_tokens,
        vocabulary=subject.target.vocabulary_size,
        on_tokens=on_tokens,
    )


def columns_of_outputs(subject: Subject, outputs: Sequence[RequestOutput]) -> Columns:
    """Tokens of outputs with their rows, folded output by output: rows of whole vocabularies are large."""
    return Columns.joined([columns_of(emissions_of(subject, each)) for each in outputs])


def emissions_of(subject: Subject, output: RequestOutput) -> list[Emission]:
    """Tokens of one output with the rows that they should have been drawn from."""
    text, strata = output.text, strata_of(output.rounds)
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
            request=output.request,
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
