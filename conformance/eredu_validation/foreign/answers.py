"""A subject that is not ours: another engine decodes the checkpoint, and what it answers is checked before it counts.

Nothing of the engine is believed but the tokens themselves and, where it tells them, its rounds. Probabilities come
from this project's plain path, as for its own engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from eredu.contract.errors import EngineError
from eredu_validation.evidence import Round

LEFT_OUT = ("state", "path", "benefit")
"""Parts that look into eredu's own engine."""


@dataclass(frozen=True, kw_only=True)
class EngineReport:
    """How an engine decodes.

    Attributes:
        name: Its name.
        version: Its version.
        drafter: What proposes: `assistant`, `heads` or `none`.
        proposals: Proposals of a round at the most; 0 is plain decoding.
        acceptance: The rule it was asked for; None in plain decoding.
        seeds: Whether a seed repeats its output.
        notes: What a reader should know beside.
    """

    name: str
    version: str
    drafter: str
    proposals: int
    acceptance: str | None
    seeds: bool
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """In words."""
        if self.drafter == "none":
            way = "decoding plainly"
        else:
            proposers = {"assistant": "the draft model", "heads": "prediction heads"}[self.drafter]
            way = f"with {proposers}, {self.proposals} proposals a round, rule {self.acceptance}"
        parts = f"{', '.join(LEFT_OUT[:-1])} and {LEFT_OUT[-1]} are left out, for they look into eredu's own engine"
        return "; ".join((f"the tokens are drawn by {self.name} {self.version}, {way}", *self.notes, parts))

    def to_json(self) -> dict[str, Any]:
        """The stable form."""
        return {**asdict(self), "notes": list(self.notes), "text": self.sentence}


@dataclass(frozen=True)
class ForeignOutput:
    """What an engine answered to one prompt.

    Attributes:
        tokens: Output ids, a terminal one included.
        ended: Whether an end id ended it, and not the number of tokens that were asked for.
        rounds: Its rounds in order; None where the engine does not tell them.
    """

    tokens: tuple[int, ...]
    ended: bool = False
    rounds: tuple[Round, ...] | None = None


class ForeignEngine(Protocol):
    """Another engine with the checkpoint that is validated."""

    @property
    def report(self) -> EngineReport:
        """How it decodes."""
        ...

    def decode(
        self, prompts: Sequence[Sequence[int]], *, seeds: Sequence[int], max_tokens: int
    ) -> Iterator[ForeignOutput]:
        """Decode prompts, and give their outputs in order. Raises `EngineError` where it cannot."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


def foreign_outputs(
    engine: ForeignEngine,
    prompts: Sequence[Sequence[int]],
    *,
    seeds: Sequence[int],
    max_tokens: int,
    vocabulary: int,
    on_tokens: Callable[[int], None] = lambda _: None,
) -> Iterator[tuple[tuple[int, ...], Sequence[Round]]]:
    """Tokens and rounds of each prompt, checked. Where the engine tells no rounds, no place of a token is known.

    Raises `EngineError` for an answer that no right engine gives, whatever its law.
    """
    report = engine.report
    for output in engine.decode(prompts, seeds=seeds, max_tokens=max_tokens):
        fault = fault_of(output, max_tokens=max_tokens, vocabulary=vocabulary, proposals=report.proposals)
        if fault is not None:
            raise EngineError(f"{report.name} {report.version} {fault}; hold it to `eredu conformance` first")
        on_tokens(len(output.tokens))
        yield output.tokens, _blocks(output, plain=report.proposals == 0)


def fault_of(output: ForeignOutput, *, max_tokens: int, vocabulary: int, proposals: int) -> str | None:
    """What is wrong with an answer, in words that follow the engine's name; None where it is one."""
    tokens = output.tokens
    stray = next((token for token in tokens if not 0 <= token < vocabulary), None)
    if stray is not None:
        return f"answered id {stray}, and the target has the {vocabulary:,} ids 0 to {vocabulary - 1}"
    if not tokens:
        return "answered no token at all; a terminal id belongs to the answer"
    if len(tokens) > max_tokens:
        return f"answered {len(tokens)} tokens, and {max_tokens} were asked for"
    if len(tokens) < max_tokens and not output.ended:
        return f"answered {len(tokens)} tokens, {max_tokens} were asked for, and no end id ended them"
    return None if output.rounds is None else _fault_of_rounds(output.rounds, len(tokens), proposals)


def _fault_of_rounds(rounds: Sequence[Round], tokens: int, proposals: int) -> str | None:
    emitted = sum(each.emitted for each in rounds)
    if emitted != tokens:
        return f"tells of rounds with {emitted} tokens together, and answered {tokens}"
    for number, each in enumerate(rounds):
        if each.proposals > proposals:
            return f"tells of {each.proposals} proposals in round {number}, and up to {proposals} were asked for"
        if not 0 < each.emitted <= each.proposals + 1:
            return f"tells of {each.proposals} proposals and {each.emitted} tokens in round {number}"
    return None


def _blocks(output: ForeignOutput, *, plain: bool) -> Sequence[Round]:
    if output.rounds is not None:
        return output.rounds
    return [Round(proposals=0, emitted=1, known=plain)] * len(output.tokens)
