"""Numbers that sampling never meets: rare tokens, impossible rows, and numbers that must not be read at all."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from eredu_conformance.harness.cases import VOCABULARY, twin_case
from eredu_conformance.oracles.experiment import Experiment, expect, refuses
from eredu_conformance.oracles.scripts import (
    COUNTING,
    PROMPT,
    decode,
    greedy_request,
    right_script,
    script,
)
from eredu_reference import AcceptanceError, Drafter, Pieces, Request, ThreefrySource, decode_speculative
from eredu_reference.models import TableModel
from eredu_reference.rows import Row
from eredu_reference.sources import Address, FixedUniform, Uniform


def _rare_tokens(pieces: Pieces) -> None:
    """Probabilities of 1e-9 and below are compared as they are."""
    for target, draft, coin, due in (
        (1e-9, 2e-8, 0.5, False),
        (1e-9, 2e-8, 0.04, True),
        (1e-300, 1e-298, 0.5, False),
        (1e-300, 1e-298, 0.005, True),
        (0.0, 1e-320, 0.0, False),
    ):
        seen = pieces.accepts(FixedUniform(coin), target, draft)
        expect(bool(seen), due, what=f"whether the coin {coin} accepts p = {target}, q = {draft}")
    even, nearly = np.array([0.5, 0.5]), np.array([0.5 + 2.0**-53, 0.5 - 2.0**-53])
    threshold = pieces.block_threshold([1.0, 1.0, 1.0], 1, [even, nearly, even], [even, even])
    expect(threshold, 1.0, what="h of a length of weight 1 with a residual of 1e-16")


def _impossible_numbers(pieces: Pieces) -> None:
    """Numbers that no correct engine produces are errors."""
    row = np.array([0.25, 0.75])
    refuses("the residual of p = q", AcceptanceError, lambda: pieces.residual(row, row, 1.0))
    refuses("a drawn proposal with q = 0", AcceptanceError, lambda: pieces.accepts(FixedUniform(0.5), 0.5, 0.0))
    nan = (float("nan"),) * VOCABULARY
    request = Request(prompt=PROMPT, max_tokens=6, max_proposals=2)
    for raw in (True, False):
        drafter = Drafter(script([2, nan, 4]), raw=raw)
        refuses("a NaN row of the drafter", AcceptanceError, lambda d=drafter: decode(pieces, d, request))  # type: ignore[misc]
    target = TableModel({**COUNTING.rows, (3,): nan})
    for drafter in (Drafter(right_script()), Drafter(right_script(), max_proposals=0)):
        for asked in (request, greedy_request()):
            what = "a NaN row of the target"
            refuses(what, AcceptanceError, lambda d=drafter, r=asked: decode(pieces, d, r, target=target))  # type: ignore[misc]


@dataclass
class _Counted:
    """A source that counts what is read of it."""

    inner: ThreefrySource
    reads: list[Address] = field(default_factory=list)

    def uniform(self, address: Address) -> Uniform:
        """Count and read a coin."""
        self.reads.append(address)
        return self.inner.uniform(address)

    def categorical(self, address: Address, row: Row) -> int:
        """Count and draw a token."""
        self.reads.append(address)
        return self.inner.categorical(address, row)


def _greedy_reads_nothing(pieces: Pieces) -> None:
    """At temperature 0 no number is read, whatever it would decide."""
    case, source = twin_case(1).greedy(), _Counted(ThreefrySource((0, 1)))
    decode_speculative(case.target, case.drafter, case.request, pieces=pieces, source=source)
    expect(source.reads, [], what="addresses read by greedy decoding")


EXPERIMENTS = (
    Experiment("scripted.rare-tokens", "probabilities from 1e-9 down to 1e-320", _rare_tokens),
    Experiment("scripted.impossible-numbers", "rows of NaN, q = 0, and a rejection at p = q", _impossible_numbers),
    Experiment("scripted.greedy-reads-nothing", "a source that counts its reads", _greedy_reads_nothing),
)
"""Experiments of this file."""
