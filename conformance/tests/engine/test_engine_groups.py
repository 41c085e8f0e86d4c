"""Groups: members that are verified together get the tokens, the end and the counters that each gets alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eredu.contract.options import MtpSchedulerOptions
from eredu.engine.mlx_backend import MlxBackend
from eredu.loaded import LoadedModel
from eredu.mlx.placement import Placement
from eredu.prepared import PreparedRequest
from eredu.results import GenerationResult
from eredu.scheduling.trace import COUNTERS

RULES: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "coupled": {"temperature": 0.9, "acceptance": "coupled"},
    "rejection": {"temperature": 0.9, "acceptance": "rejection"},
}


@dataclass(frozen=True)
class Residues:
    """Forbids one residue modulo 5 at each place, and never ends."""

    forbidden: int
    complete = False

    def mask(self) -> NDArray[np.bool_]:
        return np.asarray(np.arange(40) % 5 != self.forbidden % 5)

    def advance(self, token: int) -> Residues:
        assert self.mask()[token]
        return Residues(self.forbidden + 1)


def told(result: GenerationResult) -> tuple[Any, ...]:
    counters = {name: getattr(result.statistics, name) for name in COUNTERS}
    return result.tokens, result.finish, counters


# rule: scheduling.group-changes-nothing, scheduling.members-end-alone
@pytest.mark.parametrize("rule", RULES)
def test_a_member_gets_what_it_gets_alone(llama: Any, make_options: Callable[..., Any], rule: str) -> None:
    model = LoadedModel(MlxBackend(llama[0], Placement.choose()))
    requests = [
        PreparedRequest(
            prompt=tuple((7 * index + n) % 40 for n in range(4)),
            options=make_options(max_tokens=20 + 4 * index, seed=index, max_proposals=3, **RULES[rule]),
            constraint=Residues(index) if index < 3 else None,
        )
        for index in range(5)
    ]
    schedule = MtpSchedulerOptions(lookahead=False, max_in_flight=8)
    batch = model.generate_prepared_chat_mtp_batch(requests, llama[1], schedule=schedule)
    assert batch.schedule.peak_group == len(requests)
    alone = [model.generate_prepared_chat_mtp(request, llama[1], schedule=schedule) for request in requests]
    assert [told(result) for result in batch.results] == [told(result) for result in alone]
