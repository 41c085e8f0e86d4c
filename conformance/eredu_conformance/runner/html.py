"""A report as one HTML page that stands alone: no script, no font, no picture from anywhere else."""

from __future__ import annotations

from eredu.contract.message import html_text as escape
from eredu_conformance.protocol import Standing
from eredu_conformance.runner.replay import replay_command, writing_command
from eredu_conformance.runner.report import Report, RuleLine
from eredu_conformance.runner.result import CheckResult, Outcome
from eredu_conformance.runner.table import summary

_STYLE = """
:root { color-scheme: light dark; --good: #1a7f37; --bad: #cf222e; --dim: #6e7781; --line: #d0d7de; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
code, pre { font: 13px/1.45 ui-monospace, monospace; } pre { white-space: pre-wrap; overflow-wrap: anywhere; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; } .dim { color: var(--dim); }
article { border-left: 3px solid var(--bad); padding: 0 1rem; margin: 1rem 0; }
details > summary { cursor: pointer; }
"""

_CLASSES = {"broken": "bad", "not judged": "bad", "no violation seen": "good", "not asked": "dim"}
_OUTCOMES = {Outcome.PASSED: "good", Outcome.FAILED: "bad", Outcome.BROKEN: "bad", Outcome.SKIPPED: "dim"}


def html_page(report: Report) -> str:
    """The page."""
    title = f"{report.subject}: conformance, {report.plan.tier.value} tier, seed {report.plan.seed}"
    parts = [f"<h1>{escape(title)}</h1>", *(f"<p>{escape(line)}</p>" for line in summary(report))]
    parts += [_smoke(report), _families(report), _rules(report), _failures(report), _checks(report)]
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _smoke(report: Report) -> str:
    wrong = [check for check in report.smoke.checks if check.passed is False]
    if not wrong:
        return f"<p class='dim'>Smoke stage: {len(report.smoke.checks)} checks, nothing wrong.</p>"
    rows = "".join(f"<li><code>{escape(c.name)}</code>: {escape(c.blame)}. {escape(c.message)}</li>" for c in wrong)
    return f"<h2>Smoke stage</h2><ul class='bad'>{rows}</ul>"


def _families(report: Report) -> str:
    if not report.families:
        return ""
    claims = tuple(dict.fromkeys(cell.claim for line in report.families for cell in line.cells))
    head = "".join(f"<th>{escape(claim)}</th>" for claim in claims)
    rows = ""
    for line in report.families:
        cells = {cell.claim: cell for cell in line.cells}
        rows += f"<tr><td>{escape(line.family)}</td>" + "".join(
            f"<td class='n {_CLASSES[cell.verdict]}'>{cell.passed} of {len(cell.results)}</td>"
            if (cell := cells.get(claim)) is not None
            else "<td></td>"
            for claim in claims
        )
        rows += "</tr>"
    return f"<h2>By model family</h2><table><tr><th>family</th>{head}</tr>{rows}</table>"


def _rules(report: Report) -> str:
    head = "<tr><th>rule</th><th>kinds</th><th>passed</th><th>failed</th><th>skipped</th><th>verdict</th></tr>"
    return f"<h2>By rule</h2><table>{head}{''.join(map(_rule_row, report.rules))}</table>"


def _rule_row(line: RuleLine) -> str:
    kinds = ", ".join(dict.fromkeys(result.kind for result in line.results))
    outcomes = (Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED)
    counts = "".join(f"<td class='n'>{line.count(outcome)}</td>" for outcome in outcomes)
    return (
        f"<tr><td><code>{escape(line.rule)}</code></td><td>{escape(kinds)}</td>{counts}"
        f"<td class='{_CLASSES[line.verdict]}'>{escape(line.verdict)}</td></tr>"
    )


def _failures(report: Report) -> str:
    failed = [result for result in report.results if result.outcome in {Outcome.FAILED, Outcome.BROKEN}]
    return "<h2>What was seen</h2>" + "".join(_failure(report, result) for result in failed) if failed else ""


def _failure(report: Report, result: CheckResult) -> str:
    expected = " (expected)" if report.standing(result) is Standing.EXPECTED_FAILURE else ""
    lines = [result.message, f"seed     {result.seed}"]
    if result.history:
        lines.append(f"history  {list(result.history)}")
    lines.append(f"replay   {replay_command(report.source, result)}")
    if writing := writing_command(result):
        lines.append(f"models   {writing}")
    return (
        f"<article><h3><code>{escape(result.rule)}</code>{expected}</h3><p>{escape(result.about)} "
        f"<code>{escape(result.id)}</code></p><pre>{escape(chr(10).join(lines))}</pre></article>"
    )


def _checks(report: Report) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(r.id)}</code></td><td class='{_OUTCOMES[r.outcome]}'>{r.outcome.value}</td>"
        f"<td>{escape(r.message)}</td><td class='n'>{r.elapsed_s:.2f} s</td></tr>"
        for r in report.results
    )
    return f"<h2>All checks</h2><details><summary>{len(report.results)} checks</summary><table>{rows}</table></details>"
