"""The matrix: no rule without paragraph, model, implementation, test, fault and kill; and how it is read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from eredu_conformance.matrix import (
    MarkerError,
    Places,
    Site,
    as_json,
    as_markdown,
    installed_places,
    marked_sites,
    matrix,
    row_of,
)
from eredu_conformance.matrix.markers import sites_in
from eredu_conformance.runner.kills import judges_named
from eredu_spec.rules import rules

ROWS = matrix()
ROOT = installed_places().root

CODE = '''"""A module."""

# rule: draft.clip
LIMIT = 3


class Round:
    # rule: commit.order, commit.one-number
    @property
    def kept(self):
        """Kept."""
        # A reason.
        # rule: rollback.exact-length
        # Another reason.
        return [
            each for each in self.rows
        ]
'''


@pytest.mark.parametrize("rule", rules())
def test_no_cell_of_a_rule_is_empty(rule: str) -> None:
    assert ROWS[rule].empty == []
    assert all(kill.killer for kill in ROWS[rule].kills)


def test_killers_are_checks_or_tests_that_exist() -> None:
    for row in ROWS.values():
        for kill in row.kills:
            if kill.planted == "reference":
                assert judges_named(kill.killer)
            else:
                file, _, name = kill.killer.partition("::")
                assert f"\ndef {name}(" in (ROOT / file).read_text(encoding="utf-8"), kill


def test_marked_tests_are_tests() -> None:
    for row in ROWS.values():
        for site in row.tests:
            assert site.name.split(".")[-1].startswith(("test_", "Test")), site


def test_a_site_is_the_statement_below_its_marker_and_the_innermost_definition_around_it() -> None:
    assert list(sites_in("a.py", CODE)) == [
        ("draft.clip", Site("a.py", 4, "LIMIT")),
        ("commit.order", Site("a.py", 9, "Round.kept")),
        ("commit.one-number", Site("a.py", 9, "Round.kept")),
        ("rollback.exact-length", Site("a.py", 15, "Round.kept")),
    ]


def test_a_site_of_a_test_has_the_test_s_id() -> None:
    assert Site("tests/test_a.py", 3, "TestA.test_b").test_id == "tests/test_a.py::TestA::test_b"
    assert str(Site("a.py", 3, "")) == "a.py:3"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1  # rule: draft.clip\n", "a.py:1 has a marker behind code"),
        ("# rule: Draft.Clip\nx = 1\n", "expected area.name"),
        ("# rule: draft.clip,draft.x\nx = 1\n", "expected area.name"),
        ("# rule: draft.clip\n\nx = 1\n", "no statement right below"),
        ("x = 1\n# rule: draft.clip\n", "no statement right below"),
    ],
)
def test_a_malformed_marker_is_refused(text: str, said: str) -> None:
    with pytest.raises(MarkerError, match=said):
        list(sites_in("a.py", text))


def test_a_marker_of_an_unknown_rule_is_refused(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "a.py").write_text("# rule: draft.nothing\nx = 1\n")
    assert list(marked_sites(tmp_path / "engine", tmp_path)) == ["draft.nothing"]
    with pytest.raises(MarkerError, match=r"a marker names draft\.nothing, which the spec does not have"):
        matrix(Places(tmp_path, tmp_path / "engine", None))


def test_without_tests_and_markers_their_cells_are_empty(tmp_path: Path) -> None:
    row = row_of("draft.clip", Places(tmp_path, tmp_path, None))
    assert row.empty == ["implementation", "tests"]
    assert "**none**" in as_markdown({"draft.clip": row})


def test_markdown_has_a_line_a_rule_and_json_every_cell() -> None:
    lines = as_markdown(ROWS).splitlines()
    assert len(lines) == 2 + len(ROWS)
    assert len({line.count("|") for line in lines}) == 1
    assert "**none**" not in "".join(lines)
    told = json.loads(json.dumps(as_json(ROWS)))
    assert list(told) == list(rules())
    assert told["commit.one-number"]["paragraph"] == rules()["commit.one-number"].text
    assert all(cells["tests"] and cells["faults"] and cells["implementation"] for cells in told.values())


def test_the_command_prints_it() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "eredu_conformance.matrix"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("| rule | paragraph | model | implementation | tests | checks | fault | killed by |")
