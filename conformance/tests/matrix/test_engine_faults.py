"""Faults planted in eredu: each finds its seam, and is killed by the test that it names."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from eredu.scheduling.phase import check_edge
from eredu_conformance.checks.check import Kind
from eredu_conformance.faults import FAULTS
from eredu_conformance.faults.engine import ENGINE_FAULTS, EngineFault
from eredu_conformance.faults.engine.killing import run_killer, seen_by_kind
from eredu_conformance.faults.engine.seam import place_of
from eredu_conformance.faults.engine.syntax import Rewritten
from eredu_conformance.matrix import installed_places
from eredu_spec.rules import rules

ROOT = installed_places().root
ALONE = [fault for fault in ENGINE_FAULTS if fault.rule not in {other.rule for other in FAULTS}]
"""Faults of rules that the reference cannot break."""
FIRST = list({fault.rule: fault for fault in reversed(ALONE)}.values())


def named(fault: EngineFault) -> str:
    return fault.name


@pytest.mark.parametrize("fault", ENGINE_FAULTS, ids=named)
def test_a_fault_finds_its_seam(fault: EngineFault) -> None:
    place_of(fault.seam.at)
    assert fault.seam.wrong_version() is not fault.seam.at
    assert fault.rule in rules()


def test_names_are_unique() -> None:
    names = [*(fault.name for fault in FAULTS), *(fault.name for fault in ENGINE_FAULTS)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("fault", [FIRST[0], *(pytest.param(fault, marks=pytest.mark.nightly) for fault in FIRST[1:])])
def test_the_killer_of_a_fault_that_the_reference_cannot_have(fault: EngineFault) -> None:
    killed = run_killer(fault, ROOT)
    assert killed.killed, killed.output


@pytest.mark.nightly
@pytest.mark.parametrize("fault", [fault for fault in ENGINE_FAULTS if fault not in FIRST], ids=named)
def test_the_killer_of_a_fault(fault: EngineFault) -> None:
    killed = run_killer(fault, ROOT)
    assert killed.killed, killed.output


def test_two_faults_show_what_a_kind_of_check_sees() -> None:
    planted = Counter(fault.kind for fault in ENGINE_FAULTS if fault.kind)
    assert planted == dict.fromkeys((Kind.PATH, Kind.LAW, Kind.STATE, Kind.STATEFUL, Kind.TRACE), 2)


@pytest.mark.nightly
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("fault", [fault for fault in ENGINE_FAULTS if fault.kind], ids=named)
def test_the_quick_checks_of_a_kind_see_its_faults(fault: EngineFault) -> None:
    assert seen_by_kind(fault, ROOT)


HARMLESS = replace(ENGINE_FAULTS[0], seam=Rewritten(check_edge, "T not in E", "not T in E"))


def test_a_right_engine_is_not_killed() -> None:
    killed = run_killer(HARMLESS, ROOT)
    assert not killed.killed, killed.output


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (replace(HARMLESS, killer="conformance/tests/scheduling/test_none.py"), "file or directory not found"),
        (
            replace(HARMLESS, seam=Rewritten(check_edge, "T in E", "T in E")),
            "matches 0 places of eredu",
        ),
    ],
)
def test_what_cannot_be_planted_or_run_is_no_kill(fault: EngineFault, said: str) -> None:
    with pytest.raises(RuntimeError, match="pytest could not run") as refused:
        run_killer(fault, ROOT)
    assert said in str(refused.value)
