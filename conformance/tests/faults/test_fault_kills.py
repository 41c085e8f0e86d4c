"""Every planted fault is killed by the oracle that it declares, and the correct engine by none."""

from __future__ import annotations

import pytest

from eredu_conformance.faults import FAULTS, Fault, false_alarms, kill_matrix, kill_row
from eredu_conformance.oracles import ORACLES
from eredu_reference import PIECES


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.killer}-{fault.name}")
def test_fault_is_killed_by_its_declared_oracle(fault: Fault) -> None:
    row = kill_row(fault, (fault.killer,))
    assert row.killed_as_declared, f"{fault.killer} saw {row.verdicts[fault.killer].evidence}"


@pytest.mark.parametrize("name", ORACLES)
def test_correct_engine_raises_no_alarm(name: str) -> None:
    verdict = ORACLES[name](PIECES, (0,) if name == "law" else (0, 1, 2))
    assert not verdict.killed, verdict.evidence


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_correct_engine_raises_no_alarm_over_200_seeds() -> None:
    assert list(false_alarms(range(200))) == []


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_no_oracle_is_superfluous() -> None:
    """Each oracle kills a fault that no other kills, or it could be left out."""
    rows = kill_matrix()
    sole = dict.fromkeys(ORACLES, 0)
    for row in rows:
        killers = [name for name, verdict in row.verdicts.items() if verdict.killed]
        if len(killers) == 1:
            sole[killers[0]] += 1
    assert {name for name, count in sole.items() if count == 0} == set()
