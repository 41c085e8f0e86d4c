"""The reference engine on a real checkpoint as a subject of `eredu validate`.

The engine draws from rows that target and head gave; what its tokens should have been drawn from is read anew, by
teacher forcing on the plain path, with the very code that `eredu validate` uses. Randomness is one uniform number an
address, as with `TableSubject`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eredu.checkpoints.names import resolve_checkpoint
from eredu.checkpoints.opening import load_tokenizer
from eredu.contract.options import GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.engine.load import load_target
from eredu_conformance.validator_power.checkpoint_models import CheckpointHead, CheckpointTarget
from eredu_conformance.validator_power.checkpoint_rows import CheckpointRows
from eredu_conformance.validator_power.table_subject import OFF, OneNumberSource, rounds_of
from eredu_reference import PIECES, Drafter, Pieces, Request, Schedule, decode_speculative
from eredu_reference.caches import Cache
from eredu_reference.models import Model, Output
from eredu_reference.pieces import feed_block
from eredu_reference.sources import RandomSource
from eredu_validation.evidence import Emission, Round
from eredu_validation.measures.emissions import RequestOutput, emissions_of
from eredu_validation.measures.plain_rows import Text
from eredu_validation.measures.prompts import PROMPTS, encode_prompts
from eredu_validation.measures.subject import Subject

NAME = "tiny-qwen3.5"
LONGEST = 40
"""Tokens of a prompt at the most: their rows cost as much as those of the output, and tell nothing."""
TEXTS = 256
"""Outputs whose rows are kept, for subjects that say the same again and again."""


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint, shared by all subjects that draw from it.

    Attributes:
        plain: The plain path: reads what should have been drawn from.
        rows: The path that is drawn from.
        prompts: Short chats.
        eos_ids: Ids that end an output.
    """

    plain: Subject
    rows: CheckpointRows
    prompts: tuple[tuple[int, ...], ...]
    eos_ids: frozenset[int]

    @classmethod
    def load(cls, name: str = NAME) -> Checkpoint:
        """Load a checkpoint with heads, in float32."""
        tokenizer = load_tokenizer(resolve_checkpoint(name))
        model = load_target(name, tokenizer=tokenizer, dtype="float32")
        plain = Subject(
            model=model, assistant=None, options=GenerationOptions(max_tokens=1), schedule=MtpSchedulerOptions()
        )
        assert plain.heads is not None, f"{name} has no heads to draft with"
        encoded = encode_prompts(PROMPTS, tokenizer, rows=plain.target.vocabulary_size, longest=plain.target.context)
        prompts = tuple(prompt.tokens for prompt in encoded if len(prompt.tokens) <= LONGEST)
        return cls(plain, CheckpointRows(plain.target, plain.heads), prompts, model.backend.eos_ids)


@dataclass(frozen=True, kw_only=True)
class CheckpointSubject:
    """An engine, the checkpoint that it draws from and what it is asked.

    Attributes:
        checkpoint: The checkpoint.
        request: What is asked; prompt and randomness are replaced, request by request.
        schedule: What may be drafted ahead.
        pieces: The engine's parts.
        varied: Whether requests take the checkpoint's prompts in turn, instead of the request's own.
        draft_temperature: The drafter's own, beside the request's.
        zero: The checkpoint's id that the engine calls 0.
    """

    checkpoint: Checkpoint
    request: Request
    schedule: Schedule = OFF
    pieces: Pieces = PIECES
    varied: bool = True
    draft_temperature: float = 1.0
    zero: int = 0
    _texts: dict[Any, list[Emission]] = field(default_factory=dict)

    def emissions(self, seed: int) -> Iterator[Emission]:
        """Emitted tokens of request after request, without end."""
        index, prompts = 0, self.checkpoint.prompts
        while True:
            prompt = prompts[index % len(prompts)] if self.varied else self.request.prompt
            request = replace(self.request, prompt=prompt)
            # The name of the seed keeps streams of different seeds apart.
            source = OneNumberSource(random.Random(f"{seed}/{index}"))  # noqa: S311
            yield from self._request(index, request, source)
            index += 1

    def decode(self, request: Request, source: RandomSource) -> tuple[tuple[int, ...], tuple[Round, ...]]:
        """One output, in the checkpoint's ids, and its rounds."""
        rows = self.checkpoint.rows
        rows.foresee(request.prompt)
        target = CheckpointTarget(rows, self.zero)
        drafter = Drafter(CheckpointHead(rows, self.zero, temperature=self.draft_temperature), reads_hidden=True)
        eos_ids = frozenset(target.renamed(tuple(self.checkpoint.eos_ids)))
        asked = replace(request, prompt=target.renamed(request.prompt), eos_ids=eos_ids)
        pieces = replace(self.pieces, feed_block=_in_one_pass(self.pieces.feed_block))
        report = decode_speculative(target, drafter, asked, schedule=self.schedule, pieces=pieces, source=source)
        return target.renamed(report.tokens), tuple(rounds_of(report.rounds))

    def _request(self, index: int, request: Request, source: RandomSource) -> Iterator[Emission]:
        output, rounds = self.decode(request, source)
        key = request.prompt, output, rounds
        if key not in self._texts:
            if len(self._texts) >= TEXTS:
                self._texts.pop(next(iter(self._texts)))
            self._texts[key] = emissions_of(self._plain, RequestOutput(index, Text(request.prompt, output), rounds))
        yield from (replace(emission, request=index) for emission in self._texts[key])

    @property
    def _plain(self) -> Subject:
        asked = self.request.sampling
        sampling = SamplingOptions(
            temperature=asked.temperature, top_k=asked.top_k, top_p=asked.top_p, min_p=asked.min_p
        )
        return self.checkpoint.plain.with_options(sampling=sampling, max_proposals=self.request.max_proposals)


def _in_one_pass(feed: Callable[..., list[Output]]) -> Callable[..., list[Output]]:
    """Read a block's rows together before the engine asks for them one by one; faults of the law leave this alone."""
    assert feed is feed_block, "a fault that feeds its blocks otherwise reads other rows, and needs another subject"

    def together(model: Model, cache: Cache, tokens: Sequence[int], position_at: Callable[[int], int]) -> list[Output]:
        if isinstance(model, CheckpointTarget):
            read = tuple(row.token for row in cache.content())  # type: ignore[attr-defined]
            model.rows.foresee(model.renamed((*read, *tokens)))
        return feed(model, cache, tokens, position_at)

    return together
