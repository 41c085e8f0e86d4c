"""The kill matrix on the terminal: what is declared stands out, and a miss is a failure."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from eredu_conformance.checks.check import Tier
from eredu_conformance.faults import Fault, KillRow, fault_named
from eredu_conformance.oracles import ORACLES, Verdict
from eredu_conformance.runner import kill_table
from eredu_conformance.runner.kill_table import print_kill_matrix


def _print(*faults: Fault, tier: Tier = Tier.QUICK) -> tuple[bool, str]:
    stream = io.StringIO()
    clean = print_kill_matrix(Console(file=stream, width=140), tier=tier, faults=faults)
    return clean, stream.getvalue()


def test_declared_killers_stand_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kill_table, "ALARM_SEEDS", {Tier.QUICK: 1})
    clean, text = _print(fault_named("greedy-breaks-ties-upwards"))
    assert clean
    assert text.count("KILLED") == 1
    assert "1 of 1 faults killed by the oracle that they declare; 0 false alarms over 1 seeds" in text


def test_a_missed_fault_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = fault_named("greedy-breaks-ties-upwards")
    rows = [KillRow(fault, {name: Verdict(killed=False, evidence="nothing") for name in ORACLES}, {})]
    monkeypatch.setattr(kill_table, "ALARM_SEEDS", {Tier.QUICK: 0})
    monkeypatch.setattr(kill_table, "kill_matrix", lambda *_, **__: rows)
    clean, text = _print(fault)
    assert not clean
    assert "MISSED" in text
    assert "is not killed by path" in text


def test_a_false_alarm_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kill_table, "ALARM_SEEDS", {Tier.QUICK: 1})
    monkeypatch.setattr(kill_table, "kill_matrix", lambda *_, **__: [])
    verdict = Verdict(killed=True, evidence="one token too many")
    monkeypatch.setattr(kill_table, "false_alarms", lambda seeds: [("path", seeds[0], verdict)])
    clean, text = _print()
    assert not clean
    assert "false alarm: path, seed 0: one token too many" in text
