"""What a report looks like: on a terminal, as JUnit XML, as JSON, as a page that stands alone."""

from __future__ import annotations

import io
import json
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree.ElementTree import fromstring, tostring

from eredu.files.plain_console import PlainConsole
from eredu_conformance.runner import Report
from eredu_conformance.runner.html import html_page
from eredu_conformance.runner.junit import junit_tree
from eredu_conformance.runner.records import report_record
from eredu_conformance.runner.replay import replay_command, writing_command
from eredu_conformance.runner.table import print_report


def _printed(report: Report) -> str:
    stream = io.StringIO()
    print_report(report, PlainConsole(file=stream, width=80))
    return stream.getvalue()


def test_failures_come_with_what_reproduces_them(wrong_report: Report) -> None:
    text = _printed(wrong_report)
    for needed in ("verify.greedy-argmax broken", "seed     4", "history  [3", "replay   eredu conformance"):
        assert needed in text
    assert "does not conform: it breaks 1 of" in text


def test_the_table_fits_a_narrow_terminal(right_report: Report) -> None:
    lines = _printed(right_report).splitlines()
    rows = [line for line in lines if "no violation seen" in line]
    assert len(rows) == len(right_report.rules)
    assert all(len(line) <= 80 for line in rows)


def test_words_stay_honest(right_report: Report) -> None:
    for text in (_printed(right_report), html_page(right_report)):
        assert not re.search(r"\b(prove[ns]?|proof|guarantee[sd]?|verified)\b", text, re.IGNORECASE)
        assert "as far as this run looked" in text


def test_the_replay_names_subject_check_and_seed(wrong_report: Report) -> None:
    (failure,) = wrong_report.failures
    words = shlex.split(replay_command(wrong_report.source, failure))
    assert words == [
        "eredu",
        "conformance",
        "--subject",
        "wrong_engine:WrongEngine",
        "--check",
        "path.greedy-is-argmax/ties/k3",
        "--seed",
        "4",
    ]
    assert writing_command(failure) == "python -m eredu_conformance.crafted ties ./ties"


def test_junit(wrong_report: Report) -> None:
    root = junit_tree(wrong_report).getroot()
    assert root is not None
    suites = {suite.get("name"): suite for suite in root}
    assert set(suites) == {"smoke", "path"}
    cases = suites["path"].findall("testcase")
    assert len(cases) == len(wrong_report.results) == int(suites["path"].get("tests", 0))
    (failed,) = [case for case in cases if case.find("failure") is not None]
    assert failed.get("classname") == "verify.greedy-argmax"
    assert suites["path"].get("failures") == "1"


def test_json_has_everything(wrong_report: Report) -> None:
    record = json.loads(json.dumps(report_record(wrong_report)))
    assert record["status"] == 1
    assert record["subject"]["declared"]["name"] == "reference"
    assert len(record["checks"]) == len(wrong_report.results)
    (failed,) = [check for check in record["checks"] if check["outcome"] == "failed"]
    assert failed["standing"] == "failed"
    assert failed["case"]["pair"] == "ties"


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {name}" for name, _ in attrs if name in {"src", "href", "srcset", "data"}]
        if tag in {"script", "link", "iframe"}:
            self.found.append(tag)


def test_the_page_stands_alone(wrong_report: Report) -> None:
    page = html_page(wrong_report)
    links = _Links()
    links.feed(page)
    assert not links.found
    assert "url(" not in page
    assert "://" not in page
    assert "path.greedy-is-argmax/ties/k3" in page


HOSTILE = "[/b] [bold]red[/bold] :smile: <script src='x'>alert(1)</script> &amp; \x1b[31m \x07 \x9b2J \u202e \ud800 end"


def test_foreign_words_are_never_markup(wrong_report: Report) -> None:
    """Whatever an engine says, in a message, a reason or a name, stands there as it was said."""
    (failure,) = wrong_report.failures
    results = tuple(
        replace(result, message=HOSTILE, family=HOSTILE if result is failure else result.family)
        for result in wrong_report.results
    )
    report = replace(wrong_report, results=results)
    told = " ".join(_printed(report).split())
    assert "[/b] [bold]red[/bold] :smile: <script src='x'>alert(1)</script> &amp; \\x1b[31m \\x07 \\x9b2J" in told
    page = html_page(report)
    links = _Links()
    links.feed(page)
    assert not links.found
    xml = tostring(junit_tree(report).getroot(), encoding="unicode")
    for text in (told, page, xml):
        assert not set(text) & set("\x1b\x07\x9b\u202e\ud800")
        assert "\\u202e" in text
    messages = [each.get("message", "") for each in fromstring(xml).iter("failure")]
    assert any("<script src='x'>" in message for message in messages)
