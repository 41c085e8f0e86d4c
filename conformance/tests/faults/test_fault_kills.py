"""Every planted fault is killed by the check that it declares, and the right engine is accused by none of them."""

from __future__ import annotations

import pytest

from eredu_conformance.checks.check import Tier
from eredu_conformance.faults import FAULTS, Fault, fault_named
from eredu_conformance.oracles import EXPERIMENTS, complaint_of
from eredu_conformance.runner.kills import Kill, accusation, false_alarms, judges_named, kill, kills, noticed_by
from eredu_reference import PIECES


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_killed_as_declared(fault: Fault) -> None:
    killed = kill(fault)
    assert killed.killer is not None, killed.told


def test_nine_of_ten_faults_die_by_checks_alone() -> None:
    by_checks = [fault for fault in FAULTS if not fault.killed_by.startswith("scripted.")]
    assert len(by_checks) >= 0.9 * len(FAULTS)


@pytest.mark.nightly  # in every run, the quick checks judge the right engine in `test_wrong_engines`
@pytest.mark.timeout(7200)
def test_the_right_engine_is_never_accused_over_200_seeds() -> None:
    assert list(false_alarms(range(200))) == []


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_passes_the_right_engine_and_is_needed(name: str) -> None:
    """One whose faults all die by checks is to be left out."""
    assert complaint_of(EXPERIMENTS[name], PIECES) is None
    assert EXPERIMENTS[name].why
    assert any(fault.killed_by == name for fault in FAULTS)


def test_a_fault_that_its_killer_does_not_see_lives() -> None:
    lenient = fault_named("lenient-acceptance")
    blind = Fault(**{**vars(lenient), "killed_by": "path.greedy-is-argmax/table/k1"})
    lives = kill(blind)
    assert (lives.killer, lives.is_scripted) == (None, False)
    assert "none of 1 that match path.greedy" in lives.told


def test_a_check_that_raises_itself_kills_nothing() -> None:
    (check,) = judges_named("path.greedy-is-argmax/table/k1")

    def raises(*_: object) -> object:
        raise ZeroDivisionError

    broken = type(check)(**{**vars(check), "run": raises})
    assert accusation(broken, PIECES) is None


def test_a_killer_that_does_not_exist_is_named() -> None:
    with pytest.raises(KeyError, match=r"path\.no-such"):
        judges_named("path.no-such/*")


def test_kills_in_several_processes_are_those_of_one() -> None:
    chosen = [fault_named(name) for name in ("greedy-breaks-ties-upwards", "q-of-zero-accepts")]

    def told(found: list[Kill]) -> list[tuple[str, str | None]]:
        return [(each.fault, each.killer) for each in found]

    assert told(kills(chosen, jobs=2)) == told(kills(chosen))


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_survey_names_all_that_notice() -> None:
    noticed = set(noticed_by(fault_named("greedy-breaks-ties-upwards"), tier=Tier.QUICK))
    assert {"path.greedy-is-argmax/ties/k3", "scripted.impossible-numbers"} <= noticed
