"""The matrix as text: a Markdown table, or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from eredu_conformance.matrix.rows import Row

HEADER = ("rule", "paragraph", "model", "implementation", "tests", "checks", "fault", "killed by")


def as_json(rows: Mapping[str, Row]) -> dict[str, Any]:
    """All cells, by rule."""
    return {name: row_json(row) for name, row in rows.items()}


def row_json(row: Row) -> dict[str, Any]:
    """The cells of one row; sites as `path:line name`."""
    return {
        "paragraph": row.rule.text,
        "model": list(row.model),
        "implementation": [str(site) for site in row.implementation],
        "tests": [site.test_id for site in row.tests],
        "checks": row.checks,
        "faults": [{"name": kill.fault, "planted": kill.planted, "killed_by": kill.killer} for kill in row.kills],
    }


def as_markdown(rows: Mapping[str, Row]) -> str:
    """One line a rule; each cell says how many there are and names the first."""
    lines = ["| " + " | ".join(HEADER) + " |", "|" + " --- |" * len(HEADER)]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows.values()]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.rule.name,
        f"{row.rule.area}.md",
        _short(site.removeprefix("eredu_spec.") for site in row.model),
        _short(site.path.removeprefix("eredu/") + f":{site.line}" for site in row.implementation),
        _short(site.name for site in row.tests),
        _short((f"{claim} ({count})" for claim, count in row.checks.items()), nothing=""),
        _short(kill.fault for kill in row.kills),
        _short(dict.fromkeys(kill.killer.rpartition("::")[2] for kill in row.kills)),
    )


def _short(items: Iterable[str], *, nothing: str = "**none**") -> str:
    """The first of several, and how many more there are."""
    first, *more = [*items, ""]
    return first + (f" +{len(more) - 1}" if len(more) > 1 else "") if first else nothing
