"""The checks by family find what they are there to find, and pass where nothing is wrong."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from rich.console import Console

from eredu.commands.main import main
from eredu.drafters.head_state import HeadState
from eredu.mlx.caches.full import RollbackCache
from eredu.mlx.caches.recurrent import Journal
from eredu.mlx.caches.sequence import SequenceCache
from eredu_conformance.checks.finding import CheckFailure
from eredu_conformance.checks.registry import check_named
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.protocol import Capabilities, SmokeReport, SubjectSource
from eredu_conformance.runner import Plan, Report
from eredu_conformance.runner.html import html_page
from eredu_conformance.runner.judging import judge
from eredu_conformance.runner.records import report_record
from eredu_conformance.runner.table import family_table
from eredu_conformance.subjects.eredu import EreduSubject


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SubjectSession:
    subject = EreduSubject()
    return SubjectSession(subject, subject.start(), tmp_path_factory.mktemp("session"))


RIGHT = (
    "family.rollback/nemotron-h",
    "family.chunks/qwen3.5",
    "family.realigned/qwen3-next",
    "family.greedy/deepseek-v3/k3",
    "family.coupled/qwen3.5-moe/k2",
    "family.layouts/llama",
    "family.assistant/qwen3",
    "family.warm/llama",
)


@pytest.mark.parametrize("name", RIGHT)
def test_eredu_passes(name: str, session: SubjectSession) -> None:
    assert check_named(name).run(session, 0).text


def _row_too_many(self: Any, length: int) -> None:
    self.offset = min(length + 1, self.offset)


def _stale_state(self: Any, layers: list[Any], length: int) -> None:
    """Recurrent state is left where the rejected rows took it."""


def _keeps_guesses(self: Any, hidden: mx.array) -> None:
    self.stages[0].pending.append(hidden)
    self.outputs = None


def _shifted_hidden(self: Any, hidden: mx.array) -> None:
    for stage in self.stages:
        stage.cache.rollback(stage.true_rows)
    self.stages[0].pending.append(mx.roll(hidden, 1, 0))
    self.outputs = None


FEED = SequenceCache.feed_recorded


def _forgets_between_chunks(self: Any, model: Any, tokens: mx.array) -> Any:
    for index in self.batch.recurrences:
        self.layers[index].cache = [None] * len(self.layers[index].cache)
    return FEED(self, model, tokens)


@pytest.mark.parametrize(
    ("name", "place", "attribute", "wrong", "told"),
    [
        ("family.rollback/llama", RollbackCache, "rollback", _row_too_many, "rows kept"),
        ("family.greedy/deepseek-v3/k2", RollbackCache, "rollback", _row_too_many, "they part at output"),
        ("family.rollback/qwen3.5", Journal, "rollback", _stale_state, "rows kept"),
        ("family.coupled/nemotron-h/k2", Journal, "rollback", _stale_state, "they part at output"),
        ("family.realigned/qwen3.5", HeadState, "settle", _keeps_guesses, "cold caches"),
        ("family.realigned/qwen3.5-moe", HeadState, "settle", _shifted_hidden, "cold caches"),
        ("family.chunks/qwen3-next", SequenceCache, "feed_recorded", _forgets_between_chunks, "in chunks of"),
    ],
)
def test_a_wrong_state_is_found(
    name: str,
    place: type[Any],
    attribute: str,
    wrong: Callable[..., Any],
    told: str,
    session: SubjectSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(place, attribute, wrong)
    with pytest.raises(CheckFailure, match=told):
        check_named(name).run(session, 0)


def test_other_engines_are_not_asked(session: SubjectSession) -> None:
    stranger = SubjectSession(session.subject, Capabilities(name="nano", version="1"), session.directory)
    result = judge(check_named("family.greedy/llama/k1"), stranger, 0)
    assert result.outcome == "skipped"
    assert "about eredu" in result.message


def test_the_table_has_a_row_a_family_and_a_column_a_claim(
    session: SubjectSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = [
        judge(check_named(f"family.{claim}/llama{k}"), session, 0) for claim, k in (("rollback", ""), ("greedy", "/k1"))
    ]
    with monkeypatch.context() as patch:
        patch.setattr(RollbackCache, "rollback", _row_too_many)
        bad = [judge(check_named(f"family.greedy/qwen3/k{k}"), session, 0) for k in (1, 2)]
    report = Report(
        source=SubjectSource(),
        plan=Plan(families=("*",)),
        smoke=SmokeReport(checks=()),
        capabilities=session.capabilities,
        results=(*good, *bad),
    )
    stream = io.StringIO()
    Console(file=stream, width=80).print(family_table(report))
    lines = [line.split() for line in stream.getvalue().splitlines()]
    assert ["family", "rollback", "greedy"] in lines
    assert ["llama", "1", "1"] in lines
    assert ["qwen3", "·", "0/2!"] in lines
    assert "…" not in stream.getvalue()
    assert "<td class='n bad'>0 of 2</td>" in html_page(report)
    assert report_record(report)["families"][1] == {"family": "qwen3", "claims": {"greedy": "broken"}}


def test_the_command_knows_families(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["conformance", "--list", "--family", "deepseek-v3.2"]) == 0
    listed = capsys.readouterr().out
    assert "family.rollback/deepseek-v3.2" in listed
    assert "path.budget" not in listed
    assert main(["conformance", "--list", "--kind", "family"]) == 0
    assert "family.layouts/nemotron-h" in capsys.readouterr().out
    assert main(["conformance", "--family", "gpt"]) == 2
    assert "expected one of all, llama" in capsys.readouterr().err
