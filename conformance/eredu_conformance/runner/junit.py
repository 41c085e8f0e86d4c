"""A report as JUnit XML: one suite a kind, one case a check, the rule as the class."""

from __future__ import annotations

from xml.etree.ElementTree import Element, ElementTree, SubElement

from eredu.contract.message import visible
from eredu_conformance.protocol import Standing
from eredu_conformance.runner.replay import replay_command
from eredu_conformance.runner.report import Report
from eredu_conformance.runner.result import CheckResult, Outcome


def junit_tree(report: Report) -> ElementTree[Element]:
    """The document. Expected failures are skipped cases, passes that were expected to fail are failures."""
    root = Element("testsuites", name=f"eredu conformance: {report.subject}", time=f"{report.elapsed_s:.3f}")
    smoke = SubElement(root, "testsuite", name="smoke", tests=str(len(report.smoke.checks)))
    for check in report.smoke.checks:
        case = SubElement(smoke, "testcase", classname="smoke", name=check.name)
        if check.passed is None:
            SubElement(case, "skipped", message=check.message)
        elif not check.passed:
            SubElement(case, "failure", message=f"{check.blame}: {check.message}")
    for kind in dict.fromkeys(result.kind for result in report.results):
        _add_suite(root, report, [result for result in report.results if result.kind == kind])
    for element in root.iter():  # XML has no way to write most control characters, not even escaped
        element.text = element.text and visible(element.text)
        element.attrib.update({name: visible(value) for name, value in element.items()})
    return ElementTree(root)


def _add_suite(root: Element, report: Report, results: list[CheckResult]) -> None:
    suite = SubElement(
        root,
        "testsuite",
        name=results[0].kind,
        tests=str(len(results)),
        failures=str(sum(report.standing(r) in {Standing.FAILED, Standing.UNEXPECTED_PASS} for r in results)),
        errors=str(sum(r.outcome is Outcome.BROKEN for r in results)),
        skipped=str(sum(_is_skipped(report, r) for r in results)),
        time=f"{sum(r.elapsed_s for r in results):.3f}",
    )
    properties = SubElement(suite, "properties")
    for name, value in (("subject", report.subject), ("seed", report.plan.seed), ("tier", report.plan.tier.value)):
        SubElement(properties, "property", name=name, value=str(value))
    for result in results:
        _add_case(suite, report, result)


def _is_skipped(report: Report, result: CheckResult) -> bool:
    return result.outcome is Outcome.SKIPPED or report.standing(result) is Standing.EXPECTED_FAILURE


def _add_case(suite: Element, report: Report, result: CheckResult) -> None:
    case = SubElement(suite, "testcase", classname=result.rule, name=result.id, time=f"{result.elapsed_s:.3f}")
    standing = report.standing(result)
    if result.outcome is Outcome.BROKEN:
        SubElement(case, "error", message="the check itself raised").text = result.message
    elif _is_skipped(report, result):
        expected = "" if result.outcome is Outcome.SKIPPED else "expected failure: "
        SubElement(case, "skipped", message=f"{expected}{result.message}")
    elif standing is Standing.FAILED:
        failure = SubElement(case, "failure", message=result.message, type=result.rule)
        failure.text = f"seed {result.seed}\nhistory {list(result.history)}\n{replay_command(report.source, result)}"
    elif standing is Standing.UNEXPECTED_PASS:
        SubElement(case, "failure", message="passed and was expected to fail", type="unexpected pass")
    else:
        SubElement(case, "system-out").text = result.message
