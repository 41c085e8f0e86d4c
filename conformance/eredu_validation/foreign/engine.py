"""Another engine behind the conformance suite's protocol, as a validation asks it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eredu.contract.errors import EngineError
from eredu_conformance.protocol import (
    Answer,
    Capabilities,
    Errored,
    Finish,
    Request,
    Run,
    Skipped,
    Subject,
    attempt,
)
from eredu_validation.evidence import Round
from eredu_validation.foreign.answers import EngineReport, ForeignOutput

PROBE = 1
"""Tokens that an engine is asked for before anything is measured: what it cannot load or do shows at once."""


@dataclass(frozen=True, kw_only=True)
class ConformanceEngine:
    """An engine behind the protocol, started.

    Attributes:
        subject: The engine, as the protocol asks it.
        capabilities: What it declares.
        report: How it decodes.
        template: A run of one request, but for its prompt, seed and number of tokens.
    """

    subject: Subject
    capabilities: Capabilities
    report: EngineReport
    template: Run

    @property
    def settings(self) -> dict[str, Any]:
        """What the identity of a validated subject holds of it."""
        report, schedule = self.report, vars(self.template.schedule)
        return {
            "subject": f"{report.name} {report.version}",
            "drafter": report.drafter,
            "acceptance": report.acceptance,
            "max_proposals": report.proposals,
            "schedule": dict(schedule),
        }

    def probe(self, prompt: Sequence[int]) -> None:
        """Have one token decoded. Raises `EngineError` where the engine cannot."""
        for _ in self.decode([prompt], seeds=[0], max_tokens=PROBE):
            pass

    def ending_at(self, eos_ids: frozenset[int]) -> ConformanceEngine:
        """This engine, told the ids that end an output where it takes any."""
        if "eos_ids" not in self.capabilities.options:
            return self
        request = self.template.requests[0]
        options = replace(request.options, eos_ids=tuple(sorted(eos_ids)))
        return replace(self, template=replace(self.template, requests=(replace(request, options=options),)))

    def decode(
        self, prompts: Sequence[Sequence[int]], *, seeds: Sequence[int], max_tokens: int
    ) -> Iterator[ForeignOutput]:
        """Decode prompts, as many at a time as it takes. Raises `EngineError` where it cannot."""
        width = self.capabilities.max_batch
        for first in range(0, len(prompts), width):
            last = first + width
            yield from map(_output, self._answers(prompts[first:last], seeds[first:last], max_tokens))

    def close(self) -> None:
        """Stop the engine."""
        self.subject.stop()

    def _answers(self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], max_tokens: int) -> Sequence[Answer]:
        options = self.template.requests[0].options
        requests = tuple(
            Request(
                prompt=tuple(prompt),
                options=replace(options, max_tokens=max_tokens, seed=seed if self.report.seeds else None),
            )
            for prompt, seed in zip(prompts, seeds, strict=True)
        )
        try:
            outcome = attempt(self.subject, self.capabilities, replace(self.template, requests=requests))
        except SystemExit as error:
            raise EngineError(f"{self.report.name} ended itself with {error.code!r} instead of answering") from error
        match outcome:
            case Skipped(reason=reason):
                raise EngineError(f"{self.report.name} cannot do what was asked: {reason}")
            case Errored(message=message, detail=detail):
                raise EngineError(f"{self.report.name} failed: {message}{_last_line(detail)}")
        return outcome.result.answers


def _output(answer: Answer) -> ForeignOutput:
    rounds = None
    if answer.rounds is not None:
        rounds = tuple(
            Round(proposals=each.proposals, emitted=each.emitted, promoted=each.promoted) for each in answer.rounds
        )
    return ForeignOutput(answer.tokens, answer.finish is not Finish.LENGTH, rounds)


def _last_line(detail: str) -> str:
    lines = detail.strip().splitlines()
    return f" ({lines[-1].strip()})" if lines else ""
