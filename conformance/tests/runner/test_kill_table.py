"""The kill table on the terminal: killers are named, and a fault that lives or a false alarm is a failure."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from eredu_conformance.checks.check import Tier
from eredu_conformance.faults import Fault, fault_named
from eredu_conformance.runner import kill_table
from eredu_conformance.runner.kill_table import print_kill_table

TIES = fault_named("greedy-breaks-ties-upwards")


def _print(fault: Fault, monkeypatch: pytest.MonkeyPatch, *alarms: str) -> tuple[bool, str]:
    def alarmed(_: object) -> Iterator[str]:
        yield from alarms

    monkeypatch.setattr(kill_table, "false_alarms", alarmed)
    monkeypatch.setattr(kill_table, "ALARM_SEEDS", {Tier.QUICK: 1})
    stream = io.StringIO()
    clean = print_kill_table(Console(file=stream, width=140), tier=Tier.QUICK, faults=[fault])
    return clean, stream.getvalue()


def test_killers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    clean, text = _print(TIES, monkeypatch)
    assert clean
    assert TIES.killed_by.partition("/")[0] in text
    assert "1 of 1 faults killed as declared, 1 by checks and 0 by scripted experiments; 0 false alarms" in text


def test_a_fault_that_lives_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    clean, text = _print(Fault(**{**vars(TIES), "killed_by": "path.seed-matters/block"}), monkeypatch)
    assert not clean
    assert "LIVES" in text
    assert "greedy-breaks-ties-upwards lives: none of 1 that match path.seed-matters/block" in text


def test_a_false_alarm_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    clean, text = _print(TIES, monkeypatch, "path.budget/cycle/k1, seed 0: one token too many")
    assert not clean
    assert "false alarm: path.budget/cycle/k1, seed 0: one token too many" in text
