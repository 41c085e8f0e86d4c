"""`eredu validate` as a command: every kind of bad input is one message and exit status 2."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eredu_conformance.crafted import PairDirectories

Command = Callable[..., Any]


@pytest.fixture
def refused(command: Command, pair: PairDirectories) -> Callable[..., None]:
    def check(said: str, *arguments: str) -> None:
        ran = command("validate", str(pair.target), "--assistant", str(pair.draft), *arguments)
        require_refusal(ran, said)

    return check


def require_refusal(ran: Any, said: str) -> None:
    assert ran.status == 2, ran
    assert ran.stdout == ""
    assert ran.stderr.startswith("eredu: error: ")
    assert ran.stderr.count("eredu: error: ") == 1
    assert "nobody foresaw" not in ran.stderr
    assert said in ran.stderr


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ("two goals", ("--tokens", "10", "--resolve", "0.1")),
        ("--tokens was 0", ("--tokens", "0")),
        ("--resolve was 1.5", ("--resolve", "1.5")),
        ("alpha was 2.0", ("--alpha", "2")),
        ("the tolerance was -1.0", ("--tolerance", "-1")),
        ("--temperature was 0", ("--temperature", "0")),
        ("temperature was -1.0", ("--temperature", "-1")),
        ("--proposals was 0", ("--proposals", "0")),
        ("--workers was 'none'", ("--workers", "none")),
        ("--shard was 'rows'", ("--shard", "rows")),
        ("there is one process", ("--shard", "tensor")),
        ("neither --subject nor --workers", ("--shard", "tensor", "--workers", "2")),
        ("--batch was 0", ("--batch", "0")),
        ("--skip was 'law'", ("--skip", "law")),
        ("hides in the tolerance", ("--resolve", "0.01", "--tolerance", "0.1", "--skip", "numerics")),
        ("max_tokens was 0", ("--max-tokens", "0")),
        ("cannot be written", ("--json", "/nowhere/at/all.json")),
        ("cannot be written", ("--html", "/nowhere/at/all.html")),
    ],
)
def test_bad_options(refused: Callable[..., None], said: str, arguments: tuple[str, ...]) -> None:
    refused(said, *arguments)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("holds no prompt", "\n"),
        ("line 1, could not be read as JSON", "{"),
        ("line 1, is '[1]'", "[1]"),
        ("a text 'prompt' or a list of ids", '{"prompt": "a", "tokens": [1]}'),
        ("a text 'prompt' or a list of ids", '{"tokens": []}'),
        ("holds id 900", '{"name": "far", "tokens": [1, 900]}'),
        ("no prompt has any token", '{"prompt": "?"}'),
    ],
)
def test_bad_prompts(refused: Callable[..., None], tmp_path: Path, said: str, text: str) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(text, encoding="utf-8")
    refused(said, "--prompts", str(prompts))


def test_a_missing_prompts_file_and_a_damaged_ledger(refused: Callable[..., None], tmp_path: Path) -> None:
    refused("cannot be read", "--prompts", str(tmp_path / "none"))
    (tmp_path / "ledger.jsonl").write_text("{}\n", encoding="utf-8")
    refused("is no ledger", "--resume", str(tmp_path))


def test_a_target_without_a_drafter(command: Command, pair: PairDirectories) -> None:
    require_refusal(command("validate", str(pair.target)), "this needs a drafter")


def test_nothing_to_merge(command: Command, tmp_path: Path) -> None:
    require_refusal(command("validate", "merge", str(tmp_path / "none")), "there is no ledger")


def test_the_report_needs_matplotlib(
    refused: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused("pip install 'eredu[report]'", "--html", str(tmp_path / "report.html"))


def test_help_speaks_of_both_uses(command: Command) -> None:
    ran = command("validate", "--help")
    assert ran.status == 0
    for words in ("TARGET", "--resolve", "--resume", "--subject", "merge", "3 inconclusive"):
        assert words in ran.stdout
    assert command("validate", "merge", "--help").status == 0


def test_prompts_of_ids_and_texts_are_drawn_from(command: Command, pair: PairDirectories, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    lines = [{"tokens": [0, 2], "name": "ids"}, {"prompt": "abca"}]
    prompts.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    skips = [word for part in ("numerics", "state", "path", "benefit") for word in ("--skip", part)]
    models = ("validate", str(pair.target), "--assistant", str(pair.draft), "--prompts", str(prompts), *skips)
    ran = command(*models, "--tokens", "40", "--max-tokens", "10", "--json", "-")
    assert ran.status == 0, ran
    result = json.loads(ran.stdout)
    assert result["schema"] == "eredu-validation/1"
    assert result["law"]["verdict"]["tokens"] >= 40
