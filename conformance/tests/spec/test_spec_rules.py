"""The rules: their form, their names, their sites in the machine, and that nothing names a rule that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources

import pytest

import eredu_spec
from eredu_spec import diagnosis, properties
from eredu_spec.explorer import explore
from eredu_spec.rules import AREAS, RuleFormError, model_sites, parse, rules
from eredu_spec.scopes import SCOPES


def rule_file(*paragraphs: str, title: str = "# draft\n\nWhat it is about.") -> str:
    return "\n\n".join((title, *paragraphs))


def test_every_area_has_rules() -> None:
    areas = [rule.area for rule in rules().values()]
    assert tuple(dict.fromkeys(areas)) == AREAS
    assert len(areas) >= 45


def test_every_rule_is_a_paragraph_and_a_reason() -> None:
    for rule in rules().values():
        assert rule.name.startswith(f"{rule.area}.")
        assert rule.text.endswith(".")
        assert rule.why.endswith(".")
        assert "*Why.*" not in rule.text


def test_every_rule_has_a_site_in_the_machine() -> None:
    assert [rule for rule, places in model_sites().items() if not places] == []


def test_every_markdown_file_is_an_area_or_the_vocabulary_of_traces() -> None:
    files = {item.name for item in resources.files(eredu_spec).iterdir() if item.name.endswith(".md")}
    assert files == {f"{area}.md" for area in AREAS} | {"trace.md"}


@pytest.mark.parametrize("scope", ["tiny", "small"])
def test_every_edge_of_the_machine_names_a_rule(scope: str) -> None:
    assert {step.rule for step in explore(SCOPES[scope]()).steps()} <= rules().keys()


def test_properties_and_diagnoses_name_rules() -> None:
    checked = (properties.REQUEST_RULES, properties.STEP_RULES, properties.STATE_RULES, properties.EDGE_RULES)
    named = {name for table in checked for name in table} | set(diagnosis.FIELD_RULES.values())
    assert named | set(diagnosis.COUNTER_RULES.values()) <= rules().keys()


def malformed() -> Iterator[tuple[str, str, str]]:
    rule = "## draft.some-thing\n\nIt **must** hold."
    why = "*Why.* Because."
    yield "another title", rule_file(rule, why, title="# verify\n\nWhat."), "expected '# draft'"
    yield "no introduction", rule_file(rule, why, title="# draft"), "one paragraph"
    yield "no reason", rule_file(rule), "expected the rule"
    yield "two reasons", rule_file(rule, why, why), "3 paragraphs"
    yield "reason first", rule_file("## draft.some-thing", why, "It **must** hold."), "expected the rule"
    yield "another area", rule_file("## commit.some-thing\n\nIt **must** hold.", why), "expected draft.short-phrase"
    yield "capital letters", rule_file("## draft.Some\n\nIt **must** hold.", why), "expected draft.short-phrase"
    yield "a number alone is no phrase", rule_file("## draft.\n\nIt **must** hold.", why), "short-phrase"
    yield "obliges nobody", rule_file("## draft.some-thing\n\nIt is nice.", why), "obliges nobody"


@pytest.mark.parametrize(("text", "complaint"), [pytest.param(t, c, id=name) for name, t, c in malformed()])
def test_a_malformed_rule_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(RuleFormError, match=complaint):
        list(parse("draft", text))


def test_a_well_formed_one_is_read_on_one_line() -> None:
    (rule,) = parse("draft", rule_file("## draft.some-thing\n\nIt **must**\nhold.", "*Why.* Be-\n cause."))
    assert (rule.name, rule.area, rule.text, rule.why) == (
        "draft.some-thing",
        "draft",
        "It **must** hold.",
        "Be- cause.",
    )
