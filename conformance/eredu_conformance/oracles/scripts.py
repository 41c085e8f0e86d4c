"""What experiments decode: a target that counts, drafters that follow a script, and numbers as written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eredu_conformance.harness.cases import VOCABULARY
from eredu_reference import Drafter, Pieces, Report, Request, Sampling, Schedule, decode_speculative
from eredu_reference.models import ScriptedModel, TableModel
from eredu_reference.models.coded import echo_rows
from eredu_reference.models.table import Probabilities
from eredu_reference.rows import Row, check_distribution
from eredu_reference.sources import Address, FixedUniform, Uniform

PROMPT = (0, 1)
LARGEST_COIN = 1.0 - 2.0**-24
"""The largest value that a coin can take."""
COUNTING = TableModel({(x,): row for x, row in enumerate(echo_rows(VOCABULARY + 1, VOCABULARY)[1:])})
"""Id x is followed by x + 1, with certainty."""


@dataclass(frozen=True)
class ScriptedSource:
    """Every coin has one value, and every draw takes the most probable id.

    Attributes:
        coin: Value of every coin.
    """

    coin: float

    def uniform(self, address: Address) -> Uniform:  # noqa: ARG002
        """The coin."""
        return FixedUniform(self.coin)

    def categorical(self, address: Address, row: Row) -> int:  # noqa: ARG002
        """The most probable id."""
        check_distribution(row, name="drawn")
        return int(row.argmax())


def script(entries: Sequence[int | Probabilities]) -> ScriptedModel:
    """A model that proposes what is written down, by output position."""
    return ScriptedModel(VOCABULARY, len(PROMPT), tuple(entries))


def right_script(length: int = 24) -> ScriptedModel:
    """The script that is always right for the counting target."""
    return script([(PROMPT[-1] + 1 + position) % VOCABULARY for position in range(length)])


def greedy_request(**changes: object) -> Request:
    """A greedy request of the counting target, K = 3."""
    base = Request(prompt=PROMPT, max_tokens=9, sampling=Sampling(temperature=0.0), max_proposals=3)
    return replace(base, **changes)  # type: ignore[arg-type]


def decode(
    pieces: Pieces, drafter: Drafter, request: Request, *, target: TableModel = COUNTING, coin: float | None = None
) -> Report:
    """Decode with an engine's parts, branches always on; with coins of one value where one is given."""
    source = None if coin is None else ScriptedSource(coin)
    schedule = Schedule(adaptive_window=None)
    return decode_speculative(target, drafter, request, schedule=schedule, pieces=pieces, source=source)
