"""The report: one HTML page that stands alone, without scripts and without anything fetched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from eredu.validation.plots import plots_of

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; border-bottom: 1px solid #d5dbe1; }
.verdict { padding: .8rem 1rem; border-left: .4rem solid; background: #f5f7f9; }
.right { border-color: #2e7d32; } .wrong { border-color: #b3261e; } .open { border-color: #b58900; }
table { border-collapse: collapse; font-size: .9rem; } td, th { text-align: left; padding: .15rem .8rem .15rem 0; }
td { font-variant-numeric: tabular-nums; } svg { max-width: 100%; height: auto; }
figure { margin: 1rem 0; } figcaption { color: #56606b; font-size: .9rem; }
code { font-size: .85rem; overflow-wrap: anywhere; }
""".strip()
_CAPTIONS = {
    "path": "How the evidence against the subject grew. It starts at 0 and may wander below; a right subject reaches "
    "the dashed line with a chance of at most alpha, whenever one stops.",
    "transforms": "Where each token fell within the distribution that it should have been drawn from. A right subject "
    "gives a flat histogram under every order; the grey band holds 95 of 100 of its bars.",
    "acceptance": "How often the proposal at each place of a block becomes output.",
    "noise": "Each point is a row of logits: how far K-wide forwards move it, and how far the best id leads. Greedy "
    "decoding can differ from plain decoding only below the dashed line.",
    "costs": "Speed by K, from the measured time of a verification and of a draft step.",
}
_TITLES = {
    "subject": "The engine",
    "static": "The checkpoints",
    "numerics": "Numerics",
    "state": "State after forced commits",
    "path": "Greedy and coupled outputs",
    "benefit": "What it gains",
}
_PLOTS = {"numerics": ("noise",), "benefit": ("acceptance", "costs")}
_CLASSES = {0: "right", 1: "wrong", 3: "open"}


def page_of(result: Mapping[str, Any]) -> str:
    """The page of a result."""
    plots, law, verdict = plots_of(result), result["law"], result["verdict"]
    sections = [
        f"<h1>{escape(_title(result))}</h1>",
        f'<p class="verdict {_CLASSES.get(verdict["exit_status"], "open")}">{escape(verdict["text"])}</p>',
        "<h2>Law</h2>",
        *_figures(plots, ("path", "transforms")),
        _facts(_law_facts(law)),
        "<h3>Best bets</h3>",
        _table(
            ("bet", "log wealth", "most of it from", "looks like"),
            [(b["name"], f"{b['log_wealth']:.2f}", b["stratum"], b["looks_like"]) for b in law["verdict"]["best_bets"]],
        ),
        "<h3>Strata</h3>",
        _table(("stratum", "tokens"), [(name, f"{s['tokens']:,}") for name, s in law["strata"].items()]),
        "<h3>Diagnostics</h3>",
        _table(
            ("test", "order", "stratum", "tokens", "statistic", "p", ""),
            [_test_row(test) for test in law["diagnostics"]],
        ),
    ]
    for name, part in result["parts"].items():
        sections += [f"<h2>{_TITLES[name]}</h2>", f"<p>{escape(part['text'])}</p>"]
        sections += _figures(plots, _PLOTS.get(name, ()))
        sections += _details(name, part)
    sections += ["<h2>What was validated</h2>", _facts(_subject_facts(law))]
    head = f'<meta charset="utf-8"><title>{escape(_title(result))}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(sections) + "\n</body></html>\n"


def _title(result: Mapping[str, Any]) -> str:
    static = result["parts"].get("static")
    return "eredu validate" if static is None else f"eredu validate: {static['target']['path'].rpartition('/')[2]}"


def _law_facts(law: Mapping[str, Any]) -> dict[str, str]:
    verdict, terms = law["verdict"], law["terms"]
    return {
        "tokens": f"{verdict['tokens']:,}",
        "e-value": "infinite" if verdict["log_e_value"] is None else f"exp({verdict['log_e_value']:.2f})",
        "alpha": f"{terms['alpha']:g}",
        "tolerance": f"{terms['tolerance']:.2e}",
        "resolved total variation": f"{verdict['resolved_total_variation']:.3f}",
        "runs": ", ".join(f"seed {run['seed']}, part {run['part']}" for run in law["runs"]),
    }


def _subject_facts(law: Mapping[str, Any]) -> dict[str, str]:
    subject = law["subject"]
    digests = {"target, SHA-256": subject["target"], "drafter, SHA-256": subject["drafter"] or "in the target"}
    return {
        **digests,
        **{name: str(value) for part in ("versions", "settings") for name, value in subject[part].items()},
    }


def _test_row(test: Mapping[str, Any]) -> tuple[str, ...]:
    mark = "rejects" if test["rejects"] else ""
    statistic, p_value = f"{test['statistic']:.3g}", f"{test['p_value']:.2g}"
    return test["name"], test["order"], test["stratum"], f"{test['tokens']:,}", statistic, p_value, mark


def _details(name: str, part: Mapping[str, Any]) -> list[str]:
    columns: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = []
    match name:
        case "numerics":
            columns = ("fed as", "rows", "bitwise", "max logit", "mean logit", "max TV", "mean TV", "argmax moves")
            rows = [_difference_row(each) for each in part["differences"]]
        case "state":
            columns = ("prompt", "proposals", "accepted", "TV to prefill", "TV to single steps", "TV of the drafter")
            rows = [_state_row(each) for each in part["rows"]]
        case "path":
            columns = ("rule", "K", "prompt", "position", "margin", "kind", "replay")
            rows = [_divergence_row(each) for each in part["divergences"]]
        case "benefit":
            columns = ("K", "tokens a round", "ms a round", "speed")
            rows = [_cost_row(each) for each in part["curve"]]
    return [_table(columns, rows)] if rows else []


def _difference_row(each: Mapping[str, Any]) -> tuple[str, ...]:
    figures = (f"{each[key]:.1e}" for key in ("max_logit", "mean_logit", "max_variation", "mean_variation"))
    bitwise = "equal" if each["bitwise_equal"] else "differs"
    return each["name"], str(each["rows"]), bitwise, *figures, str(len(each["argmax_moves"]))


def _state_row(each: Mapping[str, Any]) -> tuple[str, ...]:
    counts = (str(each[key]) for key in ("length", "proposals", "accepted"))
    return *counts, *(f"{each[key]:.1e}" for key in ("to_prefill", "to_replay", "drafter"))


def _cost_row(each: Mapping[str, Any]) -> tuple[str, ...]:
    round_ms = each["round_s"] * 1e3
    return str(each["proposals"]), f"{each['tokens_per_round']:.2f}", f"{round_ms:.2f}", f"{each['speed']:.2f}"


def _divergence_row(each: Mapping[str, Any]) -> tuple[str, ...]:
    margin = "-" if each["margin"] is None else f"{each['margin']:.2g}"
    kind = "near-tie" if each["near_tie"] else "violation"
    return each["rule"], str(each["proposals"]), each["prompt"], str(each["position"]), margin, kind, each["replay"]


def _figures(plots: Mapping[str, str], names: Iterable[str]) -> list[str]:
    return [
        f"<figure>{plots[name]}<figcaption>{escape(_CAPTIONS[name])}</figcaption></figure>"
        for name in names
        if name in plots
    ]


def _facts(facts: Mapping[str, str]) -> str:
    return _table((), list(facts.items()))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"
