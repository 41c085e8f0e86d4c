"""The subject reference: the reference engine on crafted checkpoints, its rows from their stated laws.

No weight is read: a directory is recognised by the bytes of its files, and the row behind a history is what the
checkpoint's description says. So this subject shows what the checks say of an engine that is right, in float64.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from eredu_conformance.checks.expected_output import sampling_of
from eredu_conformance.checks.pairs import every_checkpoint
from eredu_conformance.crafted import Architecture, BigramCheckpoint, CraftedCheckpoint
from eredu_conformance.crafted.tables import cycle_table
from eredu_conformance.oracles.enumeration import EnumeratingSource
from eredu_conformance.protocol import (
    Acceptance,
    Answer,
    Capabilities,
    Feature,
    Finish,
    Run,
    RunOptions,
    RunResult,
    Schedule,
    SkippedRunError,
)
from eredu_conformance.subjects.automaton import automaton_constraint
from eredu_reference import PIECES, AcceptanceRule, Cancelled, Drafter, Pieces, Report, Request, decode_together
from eredu_reference import Schedule as ReferenceSchedule
from eredu_reference.caches import FullCache, Hidden
from eredu_reference.decoding import Decoding, Observer
from eredu_reference.errors import CacheError
from eredu_reference.rows import Row
from eredu_reference.sources import Address

MAX_PROPOSALS = 64
MAX_BATCH = 1024
_FILES = ("model.safetensors", "config.json")
_ABSENT = frozenset({"max_in_flight", "max_branches"})
"""The reference decodes in rounds and has no scheduler to bound."""


@dataclass(frozen=True)
class Jitter:
    """Rounding made visible: noise on every logit, a function of the history.

    Attributes:
        seed: Which noise.
        amount: Its largest absolute value.
    """

    seed: int
    amount: float

    def row(self, history: Sequence[int], vocabulary: int) -> Row:
        """Noise behind a history, shape (vocabulary,)."""
        generator = np.random.default_rng([self.seed, *history])
        return np.asarray(generator.uniform(-self.amount, self.amount, vocabulary))


@dataclass(frozen=True)
class CraftedModel:
    """A crafted checkpoint as a model of the reference.

    Attributes:
        checkpoint: Its law.
        jitter: Noise on its logits, or None.
        fingerprint: Name of the tokenizer.
    """

    checkpoint: CraftedCheckpoint
    jitter: Jitter | None = None
    fingerprint: str = "crafted"

    @property
    def vocabulary(self) -> int:
        """Number of ids."""
        return self.checkpoint.vocabulary

    @property
    def context(self) -> int:
        """Inputs that fit."""
        return self.checkpoint.context_limit

    def new_cache(self) -> FullCache:
        """All inputs; what a window would still hold is a function of them."""
        return FullCache()

    def logits(self, cache: FullCache) -> Row:
        """The stated logits behind the cached inputs. Before the law is stated for a history, any row will do."""
        rows = cache.content()
        if any(row.position != index for index, row in enumerate(rows)):
            raise CacheError(f"inputs stand at positions {[row.position for row in rows]}")
        history = [row.token for row in rows]
        missing = self.checkpoint.history_min - len(history)
        if missing > 0:
            history += [(history[-1] + 1) % self.vocabulary] * missing
        noise = 0.0 if self.jitter is None else self.jitter.row(history, self.vocabulary)
        return noise + self.checkpoint._logits(history)  # noqa: SLF001 - prefixes of a prompt may be too short for the law

    def hidden(self, cache: FullCache) -> Hidden:  # noqa: ARG002
        """No hidden state."""
        return ()


@dataclass
class DecidingSource(EnumeratingSource):
    """A source whose decisions follow a script and are told with the weights of their outcomes.

    Attributes:
        decisions: Weights of each decision so far, impossible outcomes at 0.
    """

    decisions: list[tuple[float, ...]] = field(default_factory=list)

    def choose(self, address: Address, edges: Sequence[float]) -> int:
        """Decide, and note the weights where there was a choice."""
        low, high = self.cells.get(address, (0.0, 1.0))
        before = len(self.taken)
        choice = super().choose(address, edges)
        if len(self.taken) > before:
            inside = [min(high, max(low, edge)) for edge in edges]
            shares = [(b - a) / (high - low) for a, b in pairwise(inside)]
            self.decisions.append(tuple(share if share > 1e-13 else 0.0 for share in shares))
        return choice


class ReferenceSubject:
    """The reference engine.

    Args:
        pieces: Its parts; a planted fault replaces one of them.
        jitter: Noise on the logits of every model.
    """

    def __init__(self, pieces: Pieces = PIECES, *, jitter: Jitter | None = None) -> None:
        self._pieces = pieces
        self._jitter = jitter

    def start(self) -> Capabilities:
        """Declare everything but the bounds of a scheduler, and traces: its log has words of its own."""
        return Capabilities(
            name="reference",
            version="1",
            architectures=frozenset({"llama", "qwen3"}),
            features=frozenset(Feature) - {Feature.TRACES, Feature.CHECKPOINTS, Feature.HEADS},
            options=frozenset({*RunOptions.__dataclass_fields__, *Schedule.__dataclass_fields__}) - _ABSENT,
            acceptance=(Acceptance.REJECTION, Acceptance.BLOCK, Acceptance.COUPLED),
            max_proposals=MAX_PROPOSALS,
            max_batch=MAX_BATCH,
        )

    def run(self, run: Run) -> RunResult:
        """Decode the requests together, so that those that are ready are verified as one group.

        Where the run decides over draws they are decoded one by one, in the order in which it decides.
        """
        if absent := sorted(run.schedule.asked() & _ABSENT):
            raise SkippedRunError(f"the reference has no {absent[0]}: it has no scheduler to bound")
        every = tuple(range(len(run.requests)))
        if run.choices is None:
            return self._result(self._decoded(run, every))
        source = DecidingSource(run.choices)
        reports = [report for index in every for report in self._decoded(run, (index,), source)]
        return replace(self._result(reports), decisions=tuple(source.decisions))

    def stop(self) -> None:
        """Nothing is held."""

    def _decoded(self, run: Run, indices: tuple[int, ...], source: DecidingSource | None = None) -> list[Report]:
        """The reports of some of the requests. Raises what the first of them failed with."""
        target = CraftedModel(_recognised(run.checkpoint.target), self._jitter)
        requests = [_request(run, index, target.vocabulary) for index in indices]
        drafter = None
        if any(request.max_proposals > 0 for request in requests):
            if run.checkpoint.draft is None:
                raise SkippedRunError("the run asks for proposals and names no draft checkpoint")
            drafter = Drafter(CraftedModel(_recognised(run.checkpoint.draft), self._jitter))
        window = run.schedule.adaptive_window or 8
        outcomes = decode_together(
            target,
            drafter,
            requests,
            schedule=ReferenceSchedule(
                lookahead=run.schedule.lookahead,
                adaptive_window=window if run.schedule.adaptive_lookahead else None,
                prefill_chunk=run.schedule.prefill_chunk or 512,
            ),
            pieces=self._pieces,
            sources=None if source is None else [source] * len(indices),
            observers=[_cancelling(run.requests[index].cancel_after) for index in indices],
        )
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        return [outcome for outcome in outcomes if isinstance(outcome, Report)]

    def _result(self, reports: Sequence[Report]) -> RunResult:
        return RunResult(
            answers=tuple(
                Answer(tokens=each.tokens, finish=Finish(each.finish.value), statistics=each.statistics.as_dict())
                for each in reports
            ),
            trace=tuple(_told(index, event) for index, each in enumerate(reports) for event in each.events),
        )


def _cancelling(due: int | None) -> Observer:
    """Cancels its request as soon as `due` tokens are published."""

    def cancel(kind: str, decoding: Decoding) -> None:
        told = len(decoding.published)
        if due is not None and told >= due and decoding.finish is None and (kind == "publish" or due == 0):
            raise Cancelled

    return cancel


def _request(run: Run, index: int, vocabulary: int) -> Request:
    asked = run.requests[index]
    options = asked.options
    rule = options.acceptance or Acceptance.REJECTION
    if rule is Acceptance.MATCHING:
        raise SkippedRunError("the reference doesn't have the acceptance rule matching")
    if options.max_proposals > MAX_PROPOSALS:
        raise SkippedRunError(f"the reference takes up to {MAX_PROPOSALS} proposals, not {options.max_proposals}")
    return Request(
        prompt=asked.prompt,
        max_tokens=options.max_tokens,
        sampling=sampling_of(options),
        seed=options.seed if options.seed is not None else (run.seed or 0),
        batch_index=None if options.seed is not None else index,
        acceptance=AcceptanceRule(rule.value),
        max_proposals=options.max_proposals,
        lookahead_depth=options.lookahead_depth,
        eos_ids=frozenset(options.eos_ids),
        stop_sequences=options.stop_sequences,
        constraint=None if options.grammar is None else automaton_constraint(options.grammar, vocabulary),
    )


def _told(index: int, event: Mapping[str, Any]) -> dict[str, Any]:
    """An event of the reference in the words of a trace."""
    told = {"request": index, **event}
    if "target_length" in told:
        told["cache_length"] = told.pop("target_length")
    return told


def _digest(directory: Path) -> str:
    content = b"\0".join((directory / name).read_bytes() for name in _FILES)
    return hashlib.sha256(content).hexdigest()


@cache
def _known() -> dict[str, CraftedCheckpoint]:
    """Every checkpoint that the suite writes, by the digest of its files."""
    rings = [
        BigramCheckpoint(name=f"ring-{item.value}", architecture=item, probabilities=cycle_table(64))
        for item in Architecture
    ]
    found = {}
    with tempfile.TemporaryDirectory() as place:
        for checkpoint in (*rings, *every_checkpoint()):
            found[_digest(checkpoint.write(Path(place) / checkpoint.name))] = checkpoint
    return found


@cache
def _recognised(directory: Path) -> CraftedCheckpoint:
    digest = _digest(directory)
    if digest not in _known():
        raise SkippedRunError(f"{directory} is none of the suite's crafted checkpoints; the reference reads no weights")
    return _known()[digest]
