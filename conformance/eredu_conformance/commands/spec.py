"""`eredu spec`: the rules of lossless multi-token prediction, and what stands for each of them."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from eredu_conformance.commands.edge import CommandError, JsonOption, print_json
from eredu_spec.rules import AREAS, Rule, rules


def spec(
    rule: Annotated[
        str | None, typer.Argument(metavar="[RULE]", help="A rule, area.short-phrase, or an area. All if left out.")
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List the rules of the specification; with a rule, print it whole.

    A rule is shown with its reason, where the machine of the spec obeys it, where eredu implements it, what tests it,
    and which planted faults break it.
    """
    known = rules()
    if rule is None or rule in AREAS:
        _list([each for each in known.values() if rule in {None, each.area}], as_json=as_json)
    elif rule in known:
        _show(known[rule], as_json=as_json)
    else:
        raise CommandError(f"there is no rule {rule!r}; {_nearest(rule, known)}")


def _nearest(name: str, known: Iterable[str]) -> str:
    """The names that a wrong one may have meant: those spelled like it, then those that share its words."""
    names = list(known)
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    words = [word for word in re.split(r"[.\- ]+", name) if len(word) > 2]
    near += [other for other in names if other not in near and any(word in other for word in words)]
    if not near:
        return f"`eredu spec` lists all {len(names)}"
    return f"near names: {', '.join(near[:5])}; `eredu spec` lists all {len(names)}"


def _list(chosen: list[Rule], *, as_json: bool) -> None:
    if as_json:
        fields = ("name", "area", "text", "why")
        print_json({"rules": [{field: getattr(each, field) for field in fields} for each in chosen]})
        return
    width = max(len(each.name) for each in chosen)
    for index, each in enumerate(chosen):
        if index and each.area != chosen[index - 1].area:
            typer.echo()
        typer.echo(_wrapped(f"{each.name:{width}}  {_first_sentence(each.text)}", indent=width + 2))


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.) (?=[A-Z])", text.replace("**", ""), maxsplit=1)[0]


def _wrapped(text: str, *, indent: int = 0) -> str:
    """The text in lines of the terminal's width; one line where something else reads it."""
    if not sys.stdout.isatty():
        return text
    return textwrap.fill(text, shutil.get_terminal_size().columns, subsequent_indent=" " * indent)


def _show(chosen: Rule, *, as_json: bool) -> None:
    from eredu_conformance.matrix import row_of  # noqa: PLC0415 (MLX: faults planted in eredu name its functions)
    from eredu_conformance.matrix.rendering import row_json  # noqa: PLC0415

    row = row_json(row_of(chosen.name))
    if as_json:
        print_json({"name": chosen.name, "area": chosen.area, "text": chosen.text, "why": chosen.why, "matrix": row})
        return
    typer.echo(f"{chosen.name}\n")
    typer.echo(_wrapped(chosen.text.replace("**", "")))
    typer.echo()
    typer.echo(_wrapped(f"Why: {chosen.why}"))
    for title, lines in _sections(row).items():
        typer.echo(f"\n{title}")
        for line in lines or ["none"]:
            typer.echo(f"  {line}")


def _sections(row: dict[str, Any]) -> dict[str, list[str]]:
    return {
        "obeyed by the machine in": row["model"],
        "implemented in": row["implementation"],
        "tested by": row["tests"],
        "checked of any engine by": [f"{claim} ({count} cases)" for claim, count in row["checks"].items()],
        "broken by": [
            f"{fault['name']}, planted in {fault['planted']}, killed by {fault['killed_by']}" for fault in row["faults"]
        ],
    }
