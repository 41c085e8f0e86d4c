from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from eredu_spec.rules import AREAS, rules

CommandLine = Callable[..., Any]


def test_every_rule_is_listed_once_by_area_with_its_first_sentence(eredu_command: CommandLine) -> None:
    ran = eredu_command("spec")
    assert (ran.status, ran.stderr) == (0, "")
    lines = [line for line in ran.stdout.splitlines() if line]
    assert [line.split()[0] for line in lines] == list(rules())
    areas = [line.partition(".")[0] for line in lines]
    assert list(dict.fromkeys(areas)) == list(AREAS)
    line = next(line for line in lines if line.startswith("commit.terminal-token-committed"))
    sentence = "The token that ends the output must be committed like any other: it is among the output ids,"
    assert line.split(maxsplit=1)[1].startswith(sentence)
    assert ran.stdout.count("\n\n") == len(AREAS) - 1


def test_an_area_is_listed_alone(eredu_command: CommandLine) -> None:
    lines = eredu_command("spec", "rollback").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [name for name in rules() if name.startswith("rollback.")]


def test_a_rule_is_printed_whole_with_its_row(eredu_command: CommandLine) -> None:
    rule = rules()["commit.one-number"]
    ran = eredu_command("spec", "commit.one-number")
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.stdout.startswith("commit.one-number\n\n" + rule.text.replace("**", "") + "\n\nWhy: " + rule.why)
    for words in (
        "obeyed by the machine in\n  eredu_spec.committing.commit\n",
        "implemented in\n  eredu/",
        "tested by\n  conformance/tests/",
        "broken by\n",
        "killed by",
    ):
        assert words in ran.stdout, words


def test_json_lists_and_shows_the_same_rules(eredu_command: CommandLine) -> None:
    listed = json.loads(eredu_command("spec", "--json").stdout)["rules"]
    assert [(each["name"], each["area"]) for each in listed] == [(name, rules()[name].area) for name in rules()]
    shown = json.loads(eredu_command("spec", "verify.greedy-argmax", "--json").stdout)
    row = shown.pop("matrix")
    assert shown in listed
    assert set(row) == {"paragraph", "model", "implementation", "tests", "checks", "faults"}
    assert row["paragraph"] == shown["text"]
    assert {fault["planted"] for fault in row["faults"]} <= {"reference", "eredu"}


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("commit.one-numbr", "commit.one-number"),
        ("leading-token", "commit.leading-token-uncached"),
        ("xyzzy", "`eredu spec` lists all"),
    ],
)
def test_an_unknown_rule_is_refused_with_near_names(eredu_command: CommandLine, name: str, near: str) -> None:
    ran = eredu_command("spec", name)
    assert ran.status == 2
    assert not ran.stdout
    assert f"there is no rule {name!r}" in ran.stderr
    assert near in ran.stderr
