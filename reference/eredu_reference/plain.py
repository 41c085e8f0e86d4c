"""Plain decoding: one row, one token, and again. It knows nothing of proposals, so that it can judge those who do."""

from __future__ import annotations

from dataclasses import dataclass

from eredu_reference.caches import Cache
from eredu_reference.clipping import budget_of
from eredu_reference.constraint import is_complete, mask_of
from eredu_reference.models import Model, feed
from eredu_reference.requests import AcceptanceRule, Request
from eredu_reference.rows import Row, processed_row
from eredu_reference.sources import Address, RandomSource, Role, source_of
from eredu_reference.terminal import FinishReason
from eredu_reference.text import completed_stop_sequence, completed_stop_string, visible_text


@dataclass(frozen=True)
class PlainResult:
    """One decoded request.

    Attributes:
        tokens: The output ids.
        finish: Why the output ended.
        text: Its visible text; empty where the request has no text options.
        rows: Processed distribution of each output token, shape (V,) each.
        cache: The target's cache at the end: every token but the last.
    """

    tokens: tuple[int, ...]
    finish: FinishReason
    text: str
    rows: tuple[Row, ...]
    cache: Cache


def decode_plain(target: Model, request: Request, source: RandomSource | None = None) -> PlainResult:
    """Decode one request without a drafter.

    Args:
        target: The model.
        request: What is asked; its K is not read.
        source: Where random numbers come from; None is the request's own seed.
    """
    source = source_of(request) if source is None else source
    budget, set_by_context = budget_of(request, target.context)
    cache = target.new_cache()
    tokens = request.prompt
    for position, token in enumerate(tokens[:-1]):
        feed(target, cache, token, position)
    rows: list[Row] = []
    grammar = None if request.constraint is None else request.constraint.start
    while True:
        logits = feed(target, cache, tokens[-1], len(tokens) - 1).logits[: target.vocabulary]
        row = processed_row(
            logits,
            history=tokens,
            prompt_length=len(request.prompt),
            sampling=request.sampling,
            mask=mask_of(request.constraint, grammar),
        )
        rows.append(row)
        token = _draw(source, request, len(rows) - 1, row)
        tokens = (*tokens, token)
        output = tokens[len(request.prompt) :]
        if request.constraint is not None:
            grammar = request.constraint.advance(grammar, token)
        finish = None
        if completed_stop_sequence(request, output) or completed_stop_string(request.text, output):
            finish = FinishReason.STOP
        elif is_complete(request.constraint, grammar):
            finish = FinishReason.GRAMMAR
        elif token in request.eos_ids:
            finish = FinishReason.EOS
        elif len(output) == budget:
            finish = FinishReason.CONTEXT if set_by_context else FinishReason.LENGTH
        if finish is not None:
            return PlainResult(output, finish, visible_text(request, output, finished=True), tuple(rows), cache)


def _draw(source: RandomSource, request: Request, position: int, row: Row) -> int:
    if request.sampling.temperature == 0:
        return int(row.argmax())
    role = Role.NOISE if request.acceptance is AcceptanceRule.COUPLED else Role.TARGET
    return source.categorical(Address(role, position), row)
