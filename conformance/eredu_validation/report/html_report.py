"""The report: one HTML page that stands alone, without scripts and without anything fetched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from eredu.contract.message import html_text as escape
from eredu_validation.evidence.verdict import e_value_text
from eredu_validation.report.html_tables import bets_table, facts, folded, part_table, table, tests_table
from eredu_validation.report.plots import plots_of

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; border-bottom: 1px solid #d5dbe1; }
.verdict { padding: .8rem 1rem; border-left: .4rem solid; background: #f5f7f9; font-size: 1.1rem; }
.right { border-color: #2e7d32; } .wrong { border-color: #b3261e; } .open { border-color: #b58900; }
table { border-collapse: collapse; font-size: .9rem; margin: .6rem 0; }
td, th { text-align: left; vertical-align: top; padding: .15rem .8rem .15rem 0; }
td { font-variant-numeric: tabular-nums; } td:last-child { overflow-wrap: anywhere; } svg { width: 100%; height: auto; }
figure { margin: 1rem 0; } figcaption { color: #56606b; font-size: .9rem; }
summary { cursor: pointer; margin: .8rem 0; } dt { font-weight: 600; } dd { margin: 0 0 .5rem 1rem; }
""".strip()
_CAPTIONS = {
    "path": "How the evidence against the subject grew, as the power of ten of the e-value. It starts at 0 and may "
    "wander below. A right subject reaches the dashed line with a chance of at most alpha, whenever one stops.",
    "transforms": "Where each token fell (U, from 0 to 1) within the distribution that it should have been drawn from, "
    "with the vocabulary in two orders. A right subject gives a flat histogram; 95 of 100 bars end in the grey band.",
    "acceptance": "How often the proposal at each place of a block becomes output.",
    "noise": "Each point is a row of logits: how far feeding it in another way moves a logit, and how far the best id "
    "leads. Greedy decoding can differ from plain decoding only below the dashed line.",
    "margins": "No logit moved, however the rows were fed, so there is no noise to draw against the margins: this is "
    "how far the best id leads in the rows that were compared.",
    "costs": "Expected speed by K, from the measured time of whole rounds and the acceptance above, and the speed that "
    "was measured on outputs.",
}
_TITLES = {
    "subject": "The engine",
    "static": "The checkpoints",
    "numerics": "Numerics: do wide forwards give the logits of single steps?",
    "state": "State: is nothing left behind by rejected proposals?",
    "path": "Path: are greedy and coupled outputs those of plain decoding?",
    "law": "Law: do tokens come with the target's probabilities?",
    "benefit": "Benefit: what is gained?",
}
_TABLES = {
    "numerics": "Differences by the way of feeding",
    "state": "Every forced commit",
    "path": "Every divergence",
    "benefit": "Costs by K",
}
_PLOTS = {"numerics": ("noise", "margins"), "benefit": ("acceptance", "costs")}
_CLASSES = {0: "right", 1: "wrong", 3: "open"}
_WORDS = {
    "TV": "Total variation between two distributions: half the sum of the differences of their probabilities. 0.05 "
    "means that at most 5 of 100 tokens would have to be exchanged.",
    "K, proposals": "Tokens that the drafter proposes in a round, before the target looks at them.",
    "block, offset": "The proposals of a round; the place of a token in it, from 0. A bonus, and every token of plain "
    "decoding, has no proposal. Redrafted: an earlier block had proposed for the same position, and was cut.",
    "e-value": "What one unit would have grown to, had it been bet on a deviation: 1 at the start, and 1 / alpha "
    "reports one.",
    "tolerance": "TV per token that arithmetic may cause: twice what the numerics measured. Less is no deviation.",
    "coupled": "Sampling with the same random numbers as plain decoding, so that outputs can be compared by token.",
}


def page_of(result: Mapping[str, Any]) -> str:
    """The page of a result."""
    plots, law, verdict, parts = plots_of(result), result["law"], result["verdict"], result["parts"]
    sections = [
        f"<h1>{escape(_title(result))}</h1>",
        f'<p class="verdict {_CLASSES.get(verdict["exit_status"], "open")}">{escape(_sentence(verdict["text"]))}</p>',
        folded("What the words mean", _words()),
    ]
    for name in (*(part for part in parts if part != "benefit"), "law", *(part for part in parts if part == "benefit")):
        sections.append(f"<h2>{escape(_TITLES[name])}</h2>")
        sections += _law(law, plots) if name == "law" else _part(name, parts[name], plots)
    sections += ["<h2>What was validated</h2>", facts(_subject_facts(law))]
    head = f'<meta charset="utf-8"><title>{escape(_title(result))}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(sections) + "\n</body></html>\n"


def _title(result: Mapping[str, Any]) -> str:
    static = result["parts"].get("static")
    return "eredu validate" if static is None else f"eredu validate: {static['target']['path'].rpartition('/')[2]}"


def _sentence(text: str) -> str:
    """A result's words as a sentence of their own; the name of a family keeps its spelling."""
    first = text.partition(" ")[0].rstrip(";:,")
    return (f"{text[:1].upper()}{text[1:]}" if first.isalpha() else text) + ("" if text.endswith(".") else ".")


def _words() -> str:
    return "<dl>" + "".join(f"<dt>{escape(w)}</dt><dd>{escape(said)}</dd>" for w, said in _WORDS.items()) + "</dl>"


def _part(name: str, part: Mapping[str, Any], plots: Mapping[str, str]) -> list[str]:
    rows = part_table(name, part)
    return [
        f"<p>{escape(_sentence(part['text']))}</p>",
        *_figures(plots, _PLOTS.get(name, ())),
        *([folded(_TABLES[name], rows)] if rows else []),
    ]


def _law(law: Mapping[str, Any], plots: Mapping[str, str]) -> list[str]:
    strata = table(("tokens where", "tokens"), [(name, f"{s['tokens']:,}") for name, s in law["strata"].items()])
    return [
        f"<p>{escape(_sentence(law['verdict']['text']))}</p>",
        *_figures(plots, ("path", "transforms")),
        facts(_law_facts(law)),
        folded("The bets that grew most", bets_table(law["verdict"]["best_bets"])),
        folded("Where the tokens stood, and tests of each place", strata + tests_table(law["diagnostics"])),
    ]


def _law_facts(law: Mapping[str, Any]) -> dict[str, str]:
    verdict, terms = law["verdict"], law["terms"]
    log_e = math.inf if verdict["log_e_value"] is None else verdict["log_e_value"]
    return {
        "tokens": f"{verdict['tokens']:,}",
        "e-value": f"{e_value_text(log_e)}, where {1 / terms['alpha']:,.0f} reports a deviation",
        "alpha": f"{terms['alpha']:g}, the chance of accusing a right subject",
        "tolerance": f"{terms['tolerance']:.1e} TV per token",
        "resolved": f"{verdict['resolved_total_variation']:.3f} TV per token",
        "runs": ", ".join(f"seed {run['seed']}, part {run['part']}" for run in law["runs"]),
    }


def _subject_facts(law: Mapping[str, Any]) -> dict[str, str]:
    subject = law["subject"]
    digests = {"target, SHA-256": subject["target"], "drafter, SHA-256": subject["drafter"] or "in the target"}
    return {
        **digests,
        **{name: _setting(value) for part in ("versions", "settings") for name, value in subject[part].items()},
    }


def _setting(value: Any) -> str:
    return ", ".join(f"{name} {each}" for name, each in value.items()) if isinstance(value, Mapping) else str(value)


def _figures(plots: Mapping[str, str], names: Iterable[str]) -> list[str]:
    return [
        f"<figure>{plots[name]}<figcaption>{escape(_CAPTIONS[name])}</figcaption></figure>"
        for name in names
        if name in plots
    ]
