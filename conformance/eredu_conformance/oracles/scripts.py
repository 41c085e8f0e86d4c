"""What experiments decode: a target that counts, and drafters that follow a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eredu_conformance.harness.cases import VOCABULARY
from eredu_reference import Drafter, Pieces, Report, Request, Sampling, Schedule, decode_speculative
from eredu_reference.models import ScriptedModel, TableModel
from eredu_reference.models.coded import echo_rows
from eredu_reference.models.table import Probabilities

PROMPT = (0, 1)
COUNTING = TableModel({(x,): row for x, row in enumerate(echo_rows(VOCABULARY + 1, VOCABULARY)[1:])})
"""Id x is followed by x + 1, with certainty."""


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


def decode(pieces: Pieces, drafter: Drafter, request: Request, *, target: TableModel = COUNTING) -> Report:
    """Decode with an engine's parts, branches always on."""
    return decode_speculative(target, drafter, request, schedule=Schedule(adaptive_window=None), pieces=pieces)
