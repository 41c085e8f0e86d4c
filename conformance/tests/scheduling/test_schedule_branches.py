"""Who branches: what the lock-step never meets, and a bound that is reached."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eredu.contract.options import GenerationOptions, MtpSchedulerOptions
from eredu_conformance.harness.table_pairs import Script
from eredu_conformance.harness.table_schedule import TableSchedule, table_request

SCRIPT = Script(64, (60,), tuple(range(60)))
STEADY = MtpSchedulerOptions(adaptive_lookahead=False)


# rule: lookahead.exact-promotion-only
@pytest.mark.parametrize(("depth", "is_exact"), [(0, True), (4, False)], ids=["plain", "inexact"])
def test_a_plain_request_and_an_inexact_drafter_never_branch(depth: int, *, is_exact: bool) -> None:
    drafter = replace(SCRIPT.drafter(), exact_promotion=is_exact)
    table = TableSchedule(SCRIPT.target, drafter, options=STEADY)
    table.run(table_request(0, SCRIPT.prompt, GenerationOptions(max_tokens=9, max_proposals=depth)))
    assert table.executor.called("branch") == []
    assert table.tokens(0) == tuple(range(9))


# rule: lookahead.bounded
def test_a_second_branch_waits_for_nobody_where_branches_are_at_their_bound() -> None:
    options = MtpSchedulerOptions(max_branches=1, adaptive_lookahead=False)
    table = TableSchedule(SCRIPT.target, SCRIPT.drafter(), options=options)
    requests = [table_request(index, SCRIPT.prompt, GenerationOptions(max_tokens=30)) for index in range(3)]
    table.run(*requests)
    statistics = table.scheduler.statistics()
    assert statistics.peak_branches == 1
    assert statistics.peak_in_flight > 1
    assert all(table.tokens(index) == tuple(range(30)) for index in range(3))
    assert 0 < len(table.executor.called("branch")) < len(table.executor.called("submit"))
