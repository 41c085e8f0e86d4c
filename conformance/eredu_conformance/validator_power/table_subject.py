"""The reference engine on table models as a subject of `eredu validate`: every emitted token with its exact rows.

The rows are computed here from the tables, never taken from the engine, so an engine with a planted fault is judged
by what it should have drawn from. Randomness is one uniform number an address: a coin is compared with it, a token is
found by the inverse of the cumulative sums. So two decisions that read one address share the number, as the exact law
oracle has it, and as engines do that draw by cumulative sums.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from eredu_reference import PIECES, Drafter, Model, Pieces, Request, Schedule, decode_speculative
from eredu_reference.models import TableModel
from eredu_reference.rows import Row, processed_row
from eredu_reference.sources import Address, FixedUniform, Uniform
from eredu_reference.statistics import BranchOutcome, RoundReport
from eredu_validation.evidence import Columns, Emission, Round, columns_of, strata_of

OFF = Schedule(lookahead=False)


@dataclass(frozen=True)
class CachedTable(TableModel):
    """A table whose logits are arrays made once: the same rows, a few times faster."""

    @classmethod
    def of(cls, table: TableModel) -> CachedTable:
        """The same table."""
        return cls(table.rows, table.order, table.context, table.fingerprint)

    def logits(self, cache: object) -> Row:
        """Logarithms of the row under the last tokens of the cache."""
        key = tuple(row.token for row in cache.rows[-self.order :])  # type: ignore[attr-defined]
        return self._arrays[key]

    @property
    def _arrays(self) -> dict[tuple[int, ...], Row]:
        found: dict[tuple[int, ...], Row] | None = self.__dict__.get("_logits")
        if found is None:
            with np.errstate(divide="ignore"):
                found = {key: np.log(np.array(row, dtype=np.float64)) for key, row in self.rows.items()}
            self.__dict__["_logits"] = found
        return found


@dataclass
class OneNumberSource:
    """One uniform number an address, drawn when it is first read, the same ever after."""

    generator: random.Random
    numbers: dict[Address, float] = field(default_factory=dict)

    def uniform(self, address: Address) -> Uniform:
        """The coin at an address."""
        return FixedUniform(self._number(address))

    def categorical(self, address: Address, row: Row) -> int:
        """The token at which the cumulative sums of the row pass the number."""
        sums = row.cumsum().tolist()
        token = bisect_right(sums, self._number(address) * sums[-1])
        while token >= len(sums) or row[token] <= 0:
            token -= 1
        return token

    def _number(self, address: Address) -> float:
        if address not in self.numbers:
            self.numbers[address] = self.generator.random()
        return self.numbers[address]


@dataclass(frozen=True, kw_only=True)
class TableSubject:
    """An engine, its tables and what it is asked.

    Attributes:
        target: The table that the tokens should be drawn from.
        drafter: The table that proposes.
        request: What is asked; prompt and randomness are replaced, request by request.
        schedule: What may be drafted ahead.
        pieces: The engine's parts.
        engine_target: The table that the engine really has; None is `target`.
        varied: Whether each request gets a prompt of its own instead of the request's.
    """

    target: TableModel
    drafter: TableModel
    request: Request
    schedule: Schedule = OFF
    pieces: Pieces = PIECES
    engine_target: TableModel | None = None
    varied: bool = True

    def emissions(self, seed: int) -> Iterator[Emission]:
        """Emitted tokens of request after request, without end."""
        models = CachedTable.of(self.engine_target or self.target), Drafter(CachedTable.of(self.drafter))
        rows = _Rows(self.target, self.request), _Rows(self.drafter, self.request)
        index = 0
        while True:
            vocabulary = self.target.vocabulary
            prompt = (index % vocabulary, index // vocabulary % vocabulary)
            request = replace(self.request, prompt=prompt) if self.varied else self.request
            # The name of the seed keeps streams of different seeds apart.
            source = OneNumberSource(random.Random(f"{seed}/{index}"))  # noqa: S311
            yield from self._request(index, request, models, rows, source)
            index += 1

    def columns(self, seed: int, tokens: int) -> Columns:
        """The first `tokens` emissions, as columns."""
        return columns_of(list(islice(self.emissions(seed), tokens)))

    def _request(
        self,
        index: int,
        request: Request,
        models: tuple[Model, Drafter],
        rows: tuple[_Rows, _Rows],
        source: OneNumberSource,
    ) -> Iterator[Emission]:
        report = decode_speculative(*models, request, schedule=self.schedule, pieces=self.pieces, source=source)
        history = request.prompt
        strata = strata_of(rounds_of(report.rounds))
        for position, (token, stratum) in enumerate(zip(report.tokens, strata, strict=True)):
            yield Emission(
                token=token,
                target=rows[0].row(history),
                draft=rows[1].row(history),
                lagged=rows[0].row(history[:-1]) if len(history) > 1 else None,
                stratum=stratum,
                request=index,
                position=position,
                recent=history[-2:],
            )
            history += (token,)


def rounds_of(rounds: Sequence[RoundReport]) -> Iterator[Round]:
    """The rounds of a request, as far as strata go."""
    promoted = False
    for done in rounds:
        yield Round(proposals=len(done.proposals), emitted=len(done.emitted), promoted=promoted)
        promoted = done.branch is BranchOutcome.PROMOTED and done.reused > 0


@dataclass
class _Rows:
    """Processed rows of a table by history; remembered where they depend on the last tokens alone."""

    table: TableModel
    request: Request
    seen: dict[tuple[int, ...], Row] = field(default_factory=dict)

    def row(self, history: tuple[int, ...]) -> Row:
        sampling = self.request.sampling
        key = history[-self.table.order :]
        if sampling.frequency_penalty or sampling.presence_penalty or sampling.repetition_penalty != 1:
            return self._processed(key, history)
        if key not in self.seen:
            self.seen[key] = self._processed(key, history)
        return self.seen[key]

    def _processed(self, key: tuple[int, ...], history: tuple[int, ...]) -> Row:
        with np.errstate(divide="ignore"):
            logits = np.log(np.array(self.table.rows[key], dtype=np.float64))
        prompt = len(self.request.prompt)
        return processed_row(logits, history=history, prompt_length=prompt, sampling=self.request.sampling, mask=None)
