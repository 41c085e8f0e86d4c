"""The subject reference: the reference engine on crafted checkpoints, its rows from their stated laws.

No weight is read: a directory is recognised by the bytes of its files, and the row behind a history is what the
checkpoint's description says. So this subject shows what the checks say of an engine that is right, in float64.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

from eredu.files.json_reading import read_json_object
from eredu_conformance.checks.expected_output import sampling_of
from eredu_conformance.checks.pairs import every_checkpoint
from eredu_conformance.crafted import Architecture, BigramCheckpoint, CraftedCheckpoint
from eredu_conformance.crafted.tables import cycle_table
from eredu_conformance.harness.automaton import automaton_constraint
from eredu_conformance.harness.enumeration import EnumeratingSource
from eredu_conformance.protocol import (
    Acceptance,
    Answer,
    Capabilities,
    Checkpoint,
    Feature,
    Finish,
    Run,
    RunOptions,
    RunResult,
    Schedule,
    SkippedRunError,
)
from eredu_conformance.subjects.crafted_model import CraftedModel, Jitter
from eredu_conformance.subjects.reference_trace import ReferenceTrace, RequestTrace, one_behind_another
from eredu_reference import (
    PIECES,
    AcceptanceRule,
    Cancelled,
    Drafter,
    Pieces,
    PrefixStore,
    Request,
    decode_together,
)
from eredu_reference import Schedule as ReferenceSchedule
from eredu_reference.decoding import Decoding, Observer, Setting
from eredu_reference.sources import Address

MAX_PROPOSALS = 64
MAX_BATCH = 1024
VALIDATED = 2
"""Proposals that a draft with a shorter context than its target's is validated for."""
MOST_ENTRIES = 3
"""Caches of earlier requests that are kept for a pair of checkpoints."""
_FILES = ("model.safetensors", "config.json")
_ABSENT = frozenset({"max_in_flight", "max_branches", "max_group"})
"""The reference decodes in rounds and has no scheduler to bound."""


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
    """The reference engine. Like a server it keeps the caches of its last runs, and starts a longer prompt from them.

    Args:
        pieces: Its parts; a planted fault replaces one of them.
        jitter: Noise on the logits of every model.
    """

    def __init__(self, pieces: Pieces = PIECES, *, jitter: Jitter | None = None) -> None:
        self._pieces = pieces
        self._jitter = jitter
        self._stores: dict[Checkpoint, PrefixStore] = defaultdict(PrefixStore)

    def start(self) -> Capabilities:
        """Declare everything but the bounds of a scheduler."""
        return Capabilities(
            name="reference",
            version="1",
            architectures=frozenset({"llama", "qwen3"}),
            features=frozenset(Feature) - {Feature.CHECKPOINTS, Feature.HEADS},
            options=frozenset({*RunOptions.__dataclass_fields__, *Schedule.__dataclass_fields__}) - _ABSENT,
            acceptance=Acceptance.specified(),
            max_proposals=MAX_PROPOSALS,
            max_batch=MAX_BATCH,
        )

    def run(self, run: Run) -> RunResult:
        """Decode the requests together, so that their verifications are submitted as groups.

        Where the run decides over draws they are decoded one by one, in the order in which it decides.
        """
        if absent := sorted(run.schedule.asked() & _ABSENT):
            raise SkippedRunError(f"the reference has no {absent[0]}: it has no scheduler to bound")
        every = range(len(run.requests))
        if run.choices is None:
            return self._decoded(run, every, None)
        source = DecidingSource(run.choices)
        parts = [self._decoded(run, (index,), source) for index in every]
        answers = tuple(answer for part in parts for answer in part.answers)
        return replace(parts[0], answers=answers, decisions=tuple(source.decisions))

    def stop(self) -> None:
        """Nothing is held."""

    def _model(self, directory: Path) -> CraftedModel:
        return CraftedModel(_recognised(directory), self._jitter, _tokenizer(directory))

    def _decoded(self, run: Run, indices: Sequence[int], source: DecidingSource | None) -> RunResult:
        """Decode some of the requests together. Raises what the first of them failed with, if one did."""
        target, drafter = self._model(run.checkpoint.target), None
        requests = [_request(run, index, target.vocabulary) for index in indices]
        if any(request.max_proposals > 0 for request in requests):
            if run.checkpoint.draft is None:
                raise SkippedRunError("the run asks for proposals and names no draft checkpoint")
            drafter = _drafter(self._model(run.checkpoint.draft), target)
        schedule = ReferenceSchedule(
            lookahead=run.schedule.lookahead,
            adaptive_window=(run.schedule.adaptive_window or 8) if run.schedule.adaptive_lookahead else None,
            prefill_chunk=run.schedule.prefill_chunk or 512,
        )
        store = None
        if run.choices is None and run.schedule.prefill_chunk is None:
            store = self._stores[run.checkpoint]
            del store.entries[:-MOST_ENTRIES]
        setting = Setting(target, drafter, schedule, self._pieces)
        told = [RequestTrace(ReferenceTrace(), index, replace(setting, events=[])) for index in indices]
        outcomes = decode_together(
            target,
            drafter,
            requests,
            schedule=schedule,
            pieces=self._pieces,
            sources=None if source is None else [source] * len(requests),
            observers=[_observer(run, index, trace) for index, trace in zip(indices, told, strict=True)],
            logs=[trace.setting.events for trace in told],
            store=store,
        )
        answers = []
        for outcome, trace in zip(outcomes, told, strict=True):
            if isinstance(outcome, Exception):
                raise outcome
            trace.finish(outcome)
            finish, statistics = Finish(outcome.finish.value), outcome.statistics.as_dict()
            answers.append(Answer(tokens=outcome.tokens, finish=finish, statistics=statistics))
        return RunResult(answers=tuple(answers), trace=tuple(one_behind_another(trace.trace for trace in told)))


def _observer(run: Run, index: int, trace: RequestTrace) -> Observer:
    """Writes the trace of a request, and cancels it where it is due."""
    due = run.requests[index].cancel_after
    point = "submit" if index % 2 else "publish"  # with a verification in flight, or from the callback

    def observe(kind: str, decoding: Decoding) -> None:
        trace.observe(kind, decoding)
        if due is not None and len(decoding.published) >= due and (kind == point or due == 0):
            raise Cancelled

    return observe


def _drafter(draft: CraftedModel, target: CraftedModel) -> Drafter:
    """A draft with a shorter context counts as validated for few proposals, and promises no exact promotion."""
    if draft.context < target.context:
        return Drafter(draft, max_proposals=VALIDATED, exact_promotion=False)
    return Drafter(draft)


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
def _tokenizer(directory: Path) -> str:
    """What names the tokenizer of a directory: the string of every id."""
    content = read_json_object(directory / "tokenizer.json")
    return hashlib.sha256(json.dumps(sorted(content["model"]["vocab"].items())).encode()).hexdigest()


@cache
def _recognised(directory: Path) -> CraftedCheckpoint:
    digest = _digest(directory)
    if digest not in _known():
        raise SkippedRunError(f"{directory} is none of the suite's crafted checkpoints; the reference reads no weights")
    return _known()[digest]
