from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eredu.contract.options import GenerationOptions
from eredu_conformance.crafted import PairDirectories
from eredu_conformance.harness.table_pairs import Script
from eredu_conformance.harness.table_schedule import TableSchedule, table_request
from eredu_spec.rules import rules

CommandLine = Callable[..., Any]
SCRIPT = Script(16, (7, 8, 9), tuple(range(12)))


@pytest.fixture(scope="module")
def events() -> list[dict[str, Any]]:
    """A trace of two requests, one of them wrong at its third token."""
    table = TableSchedule(SCRIPT.target, SCRIPT.drafter((2,)))
    options = GenerationOptions(max_tokens=8, max_proposals=2)
    table.run(*(table_request(index, SCRIPT.prompt, options) for index in range(2)))
    return table.trace


@pytest.fixture
def write(tmp_path: Path) -> Callable[[list[Any]], str]:
    """Write events, or lines as they are, and return the file's name."""

    def to_file(lines: list[Any]) -> str:
        file = tmp_path / "trace.jsonl"
        file.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines))
        return str(file)

    return to_file


def test_a_right_trace(eredu_command: CommandLine, events: list[Any], write: Callable[[list[Any]], str]) -> None:
    ran = eredu_command("trace", "check", write(events))
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.stdout == f"{len(events)} events of 2 requests follow the rules\n"


def test_standard_input_and_empty_lines(eredu_command: CommandLine, events: list[Any]) -> None:
    text = "\n\n".join(json.dumps(event) for event in events)
    ran = eredu_command("trace", "check", "-", "--json", stdin=text.encode())
    assert ran.status == 0
    assert json.loads(ran.stdout) == {"conforms": True, "events": len(events), "requests": 2, "finding": None}


# rule: rollback.exact-length
def test_the_first_broken_rule_is_named_with_its_place(
    eredu_command: CommandLine, events: list[Any], write: Callable[[list[Any]], str]
) -> None:
    index = next(i for i, event in enumerate(events) if event["event"] == "commit")
    wrong = [
        *events[:index],
        {**events[index], "cache_length": events[index]["cache_length"] + 1},
        *events[index + 1 :],
    ]
    file = write(wrong)
    ran = eredu_command("trace", "check", file)
    length, turn = events[index]["cache_length"], events[index]["turn"]
    assert (ran.status, ran.stderr) == (1, "")
    assert ran.stdout.splitlines()[:2] == [
        f"line {index + 1}, turn {turn}: 'commit' of request {events[index]['request']} breaks rollback.exact-length",
        f"  'commit' of request {events[index]['request']} says cache_length = {length + 1}; expected {length}",
    ]
    described = json.loads(eredu_command("trace", "check", file, "--json").stdout)
    assert described["conforms"] is False
    finding = described["finding"]
    assert (finding["line"], finding["turn"], finding["event"]) == (index + 1, turn, "commit")
    assert finding["text"] == rules()["rollback.exact-length"].text.replace("**", "")


def test_what_was_due_is_said(eredu_command: CommandLine, events: list[Any], write: Callable[[list[Any]], str]) -> None:
    index = next(i for i, event in enumerate(events) if event["event"] == "submit")
    ran = eredu_command("trace", "check", write([*events[:index], *events[index + 1 :]]))
    assert ran.status == 1
    assert "'submit' of request 0" in ran.stdout.splitlines()[1].partition("; expected ")[2]


def test_a_trace_that_was_cut(eredu_command: CommandLine, events: list[Any], write: Callable[[list[Any]], str]) -> None:
    file = write(events[:-1])
    ran = eredu_command("trace", "check", file)
    assert ran.status == 1
    assert "the end of the trace breaks scheduling.every-request-ends" in ran.stdout
    assert json.loads(eredu_command("trace", "check", file, "--json").stdout)["finding"]["line"] is None
    assert eredu_command("trace", "check", file, "--partial").status == 0


def test_an_engine_without_ring(
    eredu_command: CommandLine, events: list[Any], write: Callable[[list[Any]], str]
) -> None:
    """Both prefills first, then request 0 drafts and submits before request 1 drafts."""
    first = {name: next(i for i, e in enumerate(events) if e["event"] == name) for name in ("draft", "submit")}
    order = [*range(first["draft"] + 1), first["submit"], *range(first["draft"] + 1, first["submit"])]
    turns = [events[index]["turn"] for index in range(len(order))]
    swapped = [{**events[index], "turn": turn} for index, turn in zip(order, turns, strict=True)]
    file = write(swapped)
    ran = eredu_command("trace", "check", file, "--partial")
    assert ran.status == 1
    assert "breaks scheduling.ring" in ran.stdout
    assert eredu_command("trace", "check", file, "--partial", "--no-ring").status == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 3 is '{', which is no JSON"),
        ("[1]", "line 3 is '[1]'; expected a JSON object"),
        ('{"event": "round"}', "line 3: event was 'round'; expected one of open, prefill"),
        ('{"event": "submit", "turn": 1, "request": 0}', "line 3: 'submit' has no position, rows"),
        (
            '{"event": "submit", "turn": "1", "request": 0, "position": 0, "rows": 1}',
            "line 3: 'submit' says turn = '1'; expected a whole number",
        ),
        ('{"event": "prefill", "turn": 1, "request": 9, "left": 0}', "line 3: event 2 is of request 9, which was not"),
        ("[" * 100000, "line 3 is '[[[["),
    ],
)
def test_what_is_no_trace_is_refused_with_its_line(
    eredu_command: CommandLine, events: list[Any], write: Callable[[list[Any]], str], line: str, said: str
) -> None:
    ran = eredu_command("trace", "check", write([*events[:2], line]))
    assert ran.status == 2
    assert not ran.stdout
    assert said in ran.stderr


def test_a_file_that_is_not_there_not_text_or_empty(eredu_command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for name, said in (("none", "cannot be read"), ("bytes", "cannot be read"), ("empty", "holds no event")):
        ran = eredu_command("trace", "check", str(tmp_path / name))
        assert ran.status == 2
        assert said in ran.stderr


def test_a_trace_of_generate_is_right(eredu_command: CommandLine, pair: PairDirectories, tmp_path: Path) -> None:
    file = str(tmp_path / "trace.jsonl")
    words = ("--model", str(pair.target), "--assistant", str(pair.draft), "--temperature", "1", "--trace", file, "abc")
    assert eredu_command("generate", *words).status == 0
    ran = eredu_command("trace", "check", file)
    assert (ran.status, ran.stderr) == (0, "")
