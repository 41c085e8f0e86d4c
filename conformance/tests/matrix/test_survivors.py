"""The list of survivors: every entry has a change and a proof, and mutmut's names are read as functions."""

from __future__ import annotations

import pytest

from eredu_conformance.faults.mutation import SURVIVORS, Survivor, listed, main, place_of, run, without_notes
from eredu_conformance.matrix import installed_places

ENTRY = """# Survivors

## eredu.contract.terminal.f
```diff
-    if a < 1:
+    if a <= 1:
```
Whatever a is, it is
even.

## eredu.contract.terminal.g
```diff
-x
+y
```
Same.
"""


def test_every_survivor_has_its_proof() -> None:
    known = listed(SURVIVORS.read_text(encoding="utf-8"))
    assert known
    assert all(len(proof.split()) >= 5 for proof in known.values())


def test_an_entry_is_a_place_a_change_and_a_proof() -> None:
    first, second = listed(ENTRY).items()
    assert first == (
        Survivor("eredu.contract.terminal.f", ("- if a < 1:", "+ if a <= 1:")),
        "Whatever a is, it is even.",
    )
    assert second == (Survivor("eredu.contract.terminal.g", ("- x", "+ y")), "Same.")
    assert str(first[0]) == "eredu.contract.terminal.f\n- if a < 1:\n+ if a <= 1:"


@pytest.mark.parametrize("text", [ENTRY.replace("Same.\n", ""), ENTRY.replace("-x\n+y\n", "x\n")])
def test_an_entry_without_a_proof_or_a_change_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"shows no change|with a change and a proof"):
        listed(text)


@pytest.mark.parametrize(
    ("mutant", "place"),
    [
        ("eredu.contract.terminal.xǁTerminalWatchǁ_read__mutmut_1", "eredu.contract.terminal.TerminalWatch._read"),
        ("eredu.scheduling.lookahead.x_planned_length__mutmut_10", "eredu.scheduling.lookahead.planned_length"),
        ("eredu_spec.acceptance.x__excess__mutmut_2", "eredu_spec.acceptance._excess"),
    ],
)
def test_a_mutant_s_name_is_that_of_its_function(mutant: str, place: str) -> None:
    assert place_of(mutant) == place


def test_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match="is not how mutmut names a mutant"):
        place_of("eredu.contract.terminal.walk")


def test_what_is_mutated_notes_no_rules_and_keeps_its_lines() -> None:
    text = 'class A:\n    @obeys(\n        "a.b",\n    )\n    @property\n    def c(self):\n        return 1\n'
    assert without_notes(text) == "class A:\n\n\n\n    @property\n    def c(self):\n        return 1\n"


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_what_stays_alive_is_what_is_listed() -> None:
    pytest.importorskip("mutmut")
    assert main([]) == 0


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("module", ["eredu.scheduling.clipping", "eredu_spec.clipping"])
def test_a_module_alone(module: str) -> None:
    pytest.importorskip("mutmut")
    alive = run(installed_places().root, [module])
    assert alive <= listed(SURVIVORS.read_text(encoding="utf-8")).keys()
