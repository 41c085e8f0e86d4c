"""The rules: prose in the Markdown files beside this module, read into values and held to one form.

A file is named like its area. Below a title and an introduction, each rule is a second-level heading with its name,
one normative paragraph, and one paragraph that starts with *Why.*; nothing else.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module, resources

import eredu_spec
from eredu_spec.sites import noted_sites

AREAS = (
    "draft",
    "verify",
    "commit",
    "rollback",
    "bonus",
    "lookahead",
    "promotion",
    "adaptive",
    "randomness",
    "scheduling",
    "cancellation",
    "terminal",
    "constraints",
    "events",
    "statistics",
    "capability",
    "placement",
)
"""The areas, in the order in which a reader meets them."""

_NAME = re.compile(r"[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*")
_WHY = "*Why.* "
_NORMATIVE = ("**must", "**may")


class RuleFormError(ValueError):
    """A rule file that does not have the form that this module describes."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        name: Its name, `area.short-phrase`; never reused.
        area: Its area.
        text: The normative paragraph, on one line.
        why: The reason, on one line.
    """

    name: str
    area: str
    text: str
    why: str


@lru_cache(maxsize=1)
def rules() -> dict[str, Rule]:
    """All rules by name, area by area. Raises `RuleFormError` if a file is malformed or a name stands twice."""
    found: dict[str, Rule] = {}
    for area in AREAS:
        text = resources.files(eredu_spec).joinpath(f"{area}.md").read_text(encoding="utf-8")
        for rule in parse(area, text):
            if rule.name in found:
                raise RuleFormError(f"rule {rule.name} stands twice; names are never reused")
            found[rule.name] = rule
    return found


def parse(area: str, text: str) -> Iterator[Rule]:
    """The rules of one file. Raises `RuleFormError` where the text departs from the form."""
    introduction, *sections = text.split("\n## ")
    if not introduction.startswith(f"# {area}\n") or len(_paragraphs(introduction)) != 2:
        raise RuleFormError(f"{area}.md starts with {introduction[:40]!r}; expected '# {area}' and one paragraph")
    for section in sections:
        name, _, body = section.partition("\n")
        yield _rule(area, name.strip(), _paragraphs(body))


def _rule(area: str, name: str, paragraphs: list[str]) -> Rule:
    if not _NAME.fullmatch(name) or not name.startswith(f"{area}."):
        raise RuleFormError(f"{area}.md has a rule named {name!r}; expected {area}.short-phrase in lower case")
    if len(paragraphs) != 2 or not paragraphs[1].startswith(_WHY):
        raise RuleFormError(f"rule {name} has {len(paragraphs)} paragraphs; expected the rule, then '{_WHY}…'")
    text, why = paragraphs
    if not any(word in text for word in _NORMATIVE) and "=" not in text:
        raise RuleFormError(f"rule {name} obliges nobody; expected **must**, **must not**, **may** or an identity")
    return Rule(name, area, text, why.removeprefix(_WHY))


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()) if part.strip()]


@lru_cache(maxsize=1)
def model_sites() -> dict[str, tuple[str, ...]]:
    """Where the machine obeys each rule, as dotted names. Raises `RuleFormError` for a site of an unknown rule."""
    for module in pkgutil.iter_modules(eredu_spec.__path__):
        import_module(f"eredu_spec.{module.name}")
    sites = noted_sites()
    unknown = sites.keys() - rules().keys()
    if unknown:
        raise RuleFormError(f"the machine names rules that have no paragraph: {', '.join(sorted(unknown))}")
    return {name: sites.get(name, ()) for name in rules()}
