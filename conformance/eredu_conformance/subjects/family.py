"""eredu on one checkpoint of the zoo, from the inside: decoding in every way, forced proposals, cold drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from eredu.checkpoints.opening import load_tokenizer
from eredu.contract.events import Event, TokensCommitted
from eredu.contract.executor import SpeculativeExecutor
from eredu.contract.options import AcceptanceRule, GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.contract.randomness import RequestRandomness
from eredu.contract.request import GenerationRequest
from eredu.engine.load import load_assistant, load_target
from eredu.engine.mlx_backend import MlxBackend
from eredu.loaded import LoadedModel
from eredu.prepared import PreparedRequest
from eredu.scheduling.run import run_requests
from eredu_conformance.harness.forced_executor import ForcedExecutor, OwnDraft


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One greedy or coupled request.

    Attributes:
        prompt: Its ids.
        tokens: Its budget.
        seed: None is greedy; a number draws coupled at temperature 1.
    """

    prompt: tuple[int, ...]
    tokens: int
    seed: int | None = None

    def options(self, depth: int) -> GenerationOptions:
        """As eredu's options, with up to `depth` proposals a round."""
        return GenerationOptions(
            max_tokens=self.tokens,
            sampling=SamplingOptions(temperature=0.0 if self.seed is None else 1.0),
            acceptance=AcceptanceRule.REJECTION if self.seed is None else AcceptanceRule.COUPLED,
            seed=self.seed or 0,
            max_proposals=depth,
        )


@dataclass(frozen=True)
class Forced:
    """An output made with forced proposals.

    Attributes:
        tokens: The output.
        accepted: Proposals accepted, round by round.
        own: What the heads would have proposed in each round.
    """

    tokens: tuple[int, ...]
    accepted: tuple[int, ...]
    own: tuple[OwnDraft, ...]


@dataclass(frozen=True)
class FamilyModel:
    """A loaded checkpoint.

    Attributes:
        directory: Where it lies.
        model: The model, with its heads if it has any.
    """

    directory: Path
    model: LoadedModel[MlxBackend]

    @property
    def head_depth(self) -> int:
        """Proposals a round that its own heads make; 0 without heads."""
        heads = self.model.backend.target.heads
        return 0 if heads is None else heads.traits.max_proposals

    @property
    def capability(self) -> dict[str, Any]:
        """What it can do without an assistant, as JSON."""
        return self.model.mtp_capability().to_json()

    def plain(self, *asks: Ask, chunk: int | None = None) -> tuple[tuple[int, ...], ...]:
        """Outputs of plain decoding, of one call."""
        batch = self.model.generate_prepared_chat(_prepared(asks, 0), schedule=_schedule(chunk=chunk))
        return tuple(result.tokens for result in batch.results)

    def heads(self, depth: int, *asks: Ask, chunk: int | None = None) -> tuple[tuple[int, ...], ...]:
        """Outputs with its own heads, of one call."""
        batch = self.model.generate_prepared_chat_mtp_batch(_prepared(asks, depth), schedule=_schedule(chunk=chunk))
        return tuple(result.tokens for result in batch.results)

    def assisted(self, assistant: Path, depth: int, *asks: Ask, lookahead: bool) -> tuple[tuple[int, ...], ...]:
        """Outputs with another checkpoint as assistant, of one call."""
        drafter = load_assistant(assistant, tokenizer=load_tokenizer(assistant))
        batch = self.model.generate_prepared_chat_mtp_batch(
            _prepared(asks, depth), drafter, schedule=_schedule(lookahead=lookahead)
        )
        return tuple(result.tokens for result in batch.results)

    def forced(self, depth: int, ask: Ask, output: Sequence[int], wrong: Sequence[int]) -> Forced:
        """Decode with prescribed proposals: those of `output`, wrong at one place of each block, round by round.

        Heads draft beside it where there are heads that reach the depth.
        """
        visit = _ForcedVisit(ask, output, wrong, depth)
        backend = self.model.backend
        return backend.lend_speculative(None, visit) if depth <= self.head_depth else backend.lend_plain(visit)

    def cold_draft(self, committed: Sequence[int], ask: Ask, count: int) -> tuple[int, ...]:
        """What the heads propose behind some tokens, from caches that never saw anything but these."""
        visit = _ColdVisit(Ask(prompt=tuple(committed), tokens=count + 1, seed=ask.seed), count)
        return self.model.backend.lend_speculative(None, visit)


@lru_cache(maxsize=4)
def family_model(directory: Path) -> FamilyModel:
    """Load a directory, once."""
    return fresh_model(directory)


def fresh_model(directory: Path) -> FamilyModel:
    """Load a directory again: nothing has run on the model."""
    return FamilyModel(directory, load_target(directory))


def _prepared(asks: Sequence[Ask], depth: int) -> list[PreparedRequest]:
    return [PreparedRequest(prompt=ask.prompt, options=ask.options(depth)) for ask in asks]


def _schedule(*, chunk: int | None = None, lookahead: bool = False) -> MtpSchedulerOptions:
    if chunk is None:
        return MtpSchedulerOptions(lookahead=lookahead)
    return MtpSchedulerOptions(lookahead=lookahead, prefill_chunk=chunk)


def _request(ask: Ask, depth: int) -> GenerationRequest:
    return GenerationRequest(
        index=0,
        prompt=ask.prompt,
        options=ask.options(depth),
        randomness=RequestRandomness.from_seed(ask.seed or 0),
    )


@dataclass
class _ForcedVisit:
    """Runs one request on a borrowed executor whose proposals are exchanged."""

    ask: Ask
    output: Sequence[int]
    wrong: Sequence[int]
    depth: int

    def visit(self, executor: SpeculativeExecutor[Any, Any, Any]) -> Forced:
        """Decode."""
        forced = ForcedExecutor(executor, self.output, self.wrong, self.depth)  # type: ignore[arg-type]
        rounds: list[tuple[int, ...]] = []

        def gather(event: Event) -> None:
            if isinstance(event, TokensCommitted):
                rounds.append(event.tokens)

        run_requests(forced, [_request(self.ask, self.depth)], options=_schedule(), sink=gather)
        tokens = tuple(token for part in rounds for token in part)
        return Forced(tokens, tuple(len(part) - 1 for part in rounds), tuple(forced.own))


@dataclass
class _ColdVisit:
    """Drafts one block on a borrowed executor that has seen nothing else."""

    ask: Ask
    count: int

    def visit(self, executor: SpeculativeExecutor[Any, Any, Any]) -> tuple[int, ...]:
        """Prefill and draft."""
        sequence = executor.open(_request(self.ask, self.count))
        try:
            while executor.prefill(sequence, 512):
                pass
            block = executor.draft(sequence, self.count, None, None)
            return tuple(int(token.item()) for token in block.tokens)
        finally:
            executor.close(sequence)
