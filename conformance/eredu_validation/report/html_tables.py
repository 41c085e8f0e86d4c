"""Tables of the report, one a part, with the words that a reader needs beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eredu.contract.message import html_text as escape

Row = tuple[str, ...]


def facts(pairs: Mapping[str, str]) -> str:
    """Names with their values."""
    return table((), list(pairs.items()))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"


def folded(title: str, content: str) -> str:
    """Content that is shown on a click, without a script."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def part_table(name: str, part: Mapping[str, Any]) -> str:
    """The figures of a part; empty where it has none."""
    columns, rows = _TABLES[name](part) if name in _TABLES else ((), [])
    return table(columns, rows) if rows else ""


def bets_table(best_bets: Iterable[Mapping[str, Any]]) -> str:
    """The bets that grew most."""
    rows = [(b["name"], f"{b['log_wealth']:.2f}", b["stratum"], b["looks_like"]) for b in best_bets]
    return table(("bet", "ln of its wealth", "most of it from", "what it looks for"), rows)


def tests_table(diagnostics: Iterable[Mapping[str, Any]]) -> str:
    """The tests of the transforms."""
    columns = ("test", "ids ordered by", "tokens where", "tokens", "statistic", "p-value", "")
    return table(columns, [_test_row(test) for test in diagnostics])


def small(value: float) -> str:
    """A number that is often 0 and else small."""
    return "0" if value == 0 else f"{value:.1e}"


def _test_row(test: Mapping[str, Any]) -> Row:
    mark = "rejects" if test["rejects"] else ""
    statistic, p_value = f"{test['statistic']:.3g}", f"{test['p_value']:.2g}"
    return test["name"], test["order"], test["stratum"], f"{test['tokens']:,}", statistic, p_value, mark


def _numerics(part: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    columns = ("rows fed as", "rows", "bits", "max logit", "mean logit", "max TV", "mean TV", "best id moved")
    return columns, [_difference_row(each) for each in part["differences"]]


def _difference_row(each: Mapping[str, Any]) -> Row:
    figures = (small(each[key]) for key in ("max_logit", "mean_logit", "max_variation", "mean_variation"))
    bits = "equal" if each["bitwise_equal"] else "differ"
    return each["name"], str(each["rows"]), bits, *figures, str(len(each["argmax_moves"]))


def _state(part: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    columns = ("prompt tokens", "proposals", "kept", "TV to a fresh prefill", "TV to single steps", "drafter's TV")
    return columns, [_state_row(each) for each in part["rows"]]


def _state_row(each: Mapping[str, Any]) -> Row:
    counts = (str(each[key]) for key in ("length", "proposals", "accepted"))
    return *counts, *(small(each[key]) for key in ("to_prefill", "to_replay", "drafter"))


def _path(part: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    columns = ("rule", "K", "prompt", "at token", "margin", "with other K at", "kind", "decode it again")
    return columns, [_divergence_row(each) for each in part["divergences"]]


def _divergence_row(each: Mapping[str, Any]) -> Row:
    margin = "-" if each["margin"] is None else f"{each['margin']:.2g}"
    places = ("nowhere" if other["position"] is None else str(other["position"]) for other in each["others"])
    elsewhere = ", ".join(f"{place} (K = {o['proposals']})" for o, place in zip(each["others"], places, strict=True))
    kind = "near-tie" if each["near_tie"] else "violation"
    first = each["rule"], str(each["proposals"]), each["prompt"], str(each["position"])
    return *first, margin, elsewhere or "-", kind, each["replay"]


def _benefit(part: Mapping[str, Any]) -> tuple[Row, list[Row]]:
    return ("K", "tokens a round", "ms a round", "speed over plain decoding"), [_cost_row(p) for p in part["curve"]]


def _cost_row(each: Mapping[str, Any]) -> Row:
    round_ms = each["round_s"] * 1e3
    return str(each["proposals"]), f"{each['tokens_per_round']:.2f}", f"{round_ms:.2f}", f"{each['speed']:.2f}"


_TABLES = {"numerics": _numerics, "state": _state, "path": _path, "benefit": _benefit}
