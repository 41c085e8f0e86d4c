"""The result of a validation as one JSON object, described by `result.schema.json` in this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from eredu.files.json_reading import parse_json

SCHEMA = "eredu-validation/1"


def validation_schema() -> dict[str, Any]:
    """The JSON schema of a result."""
    text = resources.files("eredu_validation.session").joinpath("result.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = parse_json(text)
    return schema


def whole_result(
    law: dict[str, Any], parts: Mapping[str, Mapping[str, Any]], violations: Sequence[str] = ()
) -> dict[str, Any]:
    """A result out of the law's and the parts'.

    Args:
        law: What the evidence says, as JSON.
        parts: What was measured beside it, as JSON, by the name of the part.
        violations: Sentences on violations of state or path: each is a deviation, whatever the law says.
    """
    verdict = {name: law["verdict"][name] for name in ("conclusion", "exit_status", "text")}
    if violations:
        text = f"deviation found: {'; '.join(violations)}. By the law: {law['verdict']['text']}"
        verdict = {"conclusion": "deviation found", "exit_status": 1, "text": text}
    return {"schema": SCHEMA, "verdict": verdict, "parts": dict(parts), "law": law}
