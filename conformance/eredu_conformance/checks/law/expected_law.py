"""What a sample of outputs should look like: joint laws of three tokens, and the law of each token in its context."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from eredu_conformance.checks.expected_output import ExpectedOutput, Row
from eredu_conformance.checks.law.likelihood_ratio import Stratum

WIDTH = 3
"""Tokens whose joint law is tested: a fault between rounds shows in how neighbours depend on each other."""

Output = tuple[int, ...]


@dataclass(frozen=True)
class ExpectedLaw:
    """The law of the outputs of one request.

    Attributes:
        plain: The request and its checkpoint, decoded plainly on paper.
    """

    plain: ExpectedOutput

    @cached_property
    def outputs(self) -> dict[Output, float]:
        """Probability of each whole output."""
        return dict(self.plain.law())

    @cached_property
    def length(self) -> int:
        """Tokens of the longest output."""
        return max(map(len, self.outputs))

    @property
    def windows(self) -> list[int]:
        """Output positions at which the tested triples start: the first tokens, and the last ones."""
        return sorted({0, max(0, self.length - WIDTH)})

    def window_stratum(self, start: int, sample: Sequence[Output]) -> Stratum:
        """Triples that start at an output position; an output that ended before gives a shorter one."""
        law: dict[Hashable, float] = defaultdict(float)
        for output, probability in self.outputs.items():
            law[output[start : start + WIDTH]] += probability
        return Stratum(law, Counter(output[start : start + WIDTH] for output in sample), float(len(sample)))

    @cached_property
    def _contexts(self) -> dict[Output, bytes]:
        """The context of each unfinished output: outputs with the same next row share one."""
        prefixes = {output[:end] for output in self.outputs for end in range(len(output))}
        return {prefix: self._row(prefix).round(12).tobytes() for prefix in sorted(prefixes)}

    def _row(self, prefix: Output) -> Row:
        if prefix not in self._rows:
            self._rows[prefix] = self.plain.row(prefix)
        return self._rows[prefix]

    @cached_property
    def _rows(self) -> dict[Output, Row]:
        return {}

    @cached_property
    def _visits(self) -> dict[bytes, float]:
        """Expected visits of each context by one output."""
        visits: dict[bytes, float] = defaultdict(float)
        weights: dict[Output, float] = defaultdict(float)
        for output, probability in self.outputs.items():
            for end in range(len(output)):
                weights[output[:end]] += probability
        for prefix, weight in weights.items():
            visits[self._contexts[prefix]] += weight
        return visits

    def context_strata(self, sample: Sequence[Output]) -> list[Stratum]:
        """Single tokens, one stratum a context. Which context a token stands in is known before it is drawn."""
        counts: dict[bytes, Counter[Hashable]] = defaultdict(Counter)
        for output in sample:
            for end, token in enumerate(output):
                context = self._contexts.get(output[:end])
                if context is not None:
                    counts[context][token] += 1
        rows = {context: self._row(prefix) for prefix, context in self._contexts.items()}
        return [
            Stratum(
                {token: float(p) for token, p in enumerate(rows[context])},
                counts[context],
                visits * len(sample),
            )
            for context, visits in sorted(self._visits.items())
        ]

    def impossible(self, sample: Sequence[Output]) -> Output | None:
        """The first output that can't be, or None."""
        return next((output for output in sample if output not in self.outputs), None)
