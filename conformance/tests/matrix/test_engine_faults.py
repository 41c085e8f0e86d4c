"""Faults planted in eredu: each edits what stands there, and is killed by the test that it names."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from eredu_conformance.checks.check import Kind
from eredu_conformance.faults import FAULTS
from eredu_conformance.faults.edits import EngineFault, run_killer, seen_by_kind
from eredu_conformance.faults.engine import ENGINE_FAULTS
from eredu_conformance.matrix import installed_places
from eredu_spec.rules import rules

ROOT = installed_places().root
ALONE = [fault for fault in ENGINE_FAULTS if fault.rule not in {other.rule for other in FAULTS}]
"""Faults of rules that the reference cannot break: these kills are part of every run."""


def named(fault: EngineFault) -> str:
    return fault.name


@pytest.mark.parametrize("fault", ENGINE_FAULTS, ids=named)
def test_a_fault_edits_one_place_of_its_file(fault: EngineFault) -> None:
    text = (ROOT / "eredu" / fault.file).read_text(encoding="utf-8")
    edited = fault.edited(text)
    assert edited != text
    compile(edited, fault.file, "exec")
    assert fault.rule in rules()


def test_names_are_unique() -> None:
    names = [*(fault.name for fault in FAULTS), *(fault.name for fault in ENGINE_FAULTS)]
    assert len(set(names)) == len(names)


def test_an_edit_of_what_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="which stands 0 times in eredu/scheduling/phase"):
        ENGINE_FAULTS[4].edited("nothing\n")


@pytest.mark.parametrize("fault", ALONE, ids=named)
def test_the_killer_of_a_fault_that_the_reference_cannot_have(fault: EngineFault) -> None:
    killed = run_killer(fault, ROOT)
    assert killed.killed, killed.output


@pytest.mark.nightly
@pytest.mark.parametrize("fault", [fault for fault in ENGINE_FAULTS if fault not in ALONE], ids=named)
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


def test_a_right_engine_is_not_killed() -> None:
    harmless = replace(ENGINE_FAULTS[0], after=f"{ENGINE_FAULTS[0].before}            # nothing is wrong\n")
    killed = run_killer(harmless, ROOT)
    assert not killed.killed, killed.output


def test_a_killer_that_cannot_run_is_no_kill() -> None:
    with pytest.raises(RuntimeError, match="pytest could not run"):
        run_killer(replace(ENGINE_FAULTS[0], killer="conformance/tests/scheduling/test_none.py"), ROOT)
