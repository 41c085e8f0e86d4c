from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eredu_conformance.crafted import PairDirectories

CommandLine = Callable[..., Any]


@pytest.fixture
def words(pair: PairDirectories, tmp_path: Path) -> tuple[str, ...]:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "adb", "name": "short"}\n{"prompt": "cebadde"}\n', encoding="utf-8")
    models = ("bench", "--model", str(pair.target), "--assistant", str(pair.draft))
    return (*models, "--prompts", str(prompts), "--max-tokens", "16", "--repeats", "2")


def test_json_report(eredu_command: CommandLine, words: tuple[str, ...], tmp_path: Path) -> None:
    output = tmp_path / "report.json"
    ran = eredu_command(*words, "-k", "2", "-k", "4", "--peers", "--json", "--output", str(output))
    assert (ran.status, ran.stderr) == (0, "")
    report = json.loads(ran.stdout)
    assert report == json.loads(output.read_text(encoding="utf-8"))
    assert report["prompts"] == ["short", "line-2"]
    greedy, sampled = report["temperatures"]
    assert (greedy["temperature"], sampled["temperature"]) == (0.0, 1.0)
    ours = ["plain", "K=2", "K=2 lookahead", "K=4", "K=4 lookahead"]
    assert [each["name"] for each in greedy["settings"]] == [*ours, "mlx-lm plain", "mlx-lm K=2", "mlx-lm K=4"]
    assert [each["name"] for each in sampled["settings"]] == ours
    for each in greedy["settings"]:
        assert each["equal_to_plain"] == each["runs"] == 4
        assert each["tokens"] == 64
        assert each["tokens_per_s"]["low"] <= each["tokens_per_s"]["median"] <= each["tokens_per_s"]["high"]
    for each in (*greedy["settings"][1:5], *sampled["settings"][1:]):
        acceptance, statistics = each["acceptance"], each["statistics"]
        assert acceptance["rounds"] == statistics["rounds"]
        assert acceptance["emitted"] == statistics["emitted"] == 64
        assert len(acceptance["conditional_acceptance"]) == each["proposals"]
        assert sum(each["time_shares"].values()) == pytest.approx(1)
        assert (each["ratio_to_reference"] is not None) == each["lookahead"]


def test_acceptance_is_that_of_the_laws(eredu_command: CommandLine, words: tuple[str, ...]) -> None:
    """Rounds that nothing cut have the tokens that their own acceptance implies."""
    ran = eredu_command(*words, "--temperature", "1", "--json", "--repeats", "6")
    for each in json.loads(ran.stdout)["temperatures"][0]["settings"][1:]:
        acceptance = each["acceptance"]
        assert acceptance["implied_tokens_per_round"] == pytest.approx(acceptance["tokens_per_round"], rel=0.02)
        assert acceptance["unhurried_tokens_per_round"] >= acceptance["implied_tokens_per_round"]


def test_tables(eredu_command: CommandLine, words: tuple[str, ...]) -> None:
    ran = eredu_command(*words, "--temperature", "0", "--acceptance", "coupled")
    assert (ran.status, ran.stderr) == (0, "")
    for text in ("Temperature 0 (greedy)", "x plain", "K=2 lookahead", "Acceptance", "Lookahead, and"):
        assert text in ran.stdout


def test_alignment(eredu_command: CommandLine, words: tuple[str, ...], tmp_path: Path) -> None:
    chats = tmp_path / "chats.npz"
    tokens = np.random.default_rng(3).integers(0, 5, 120)
    content: dict[str, Any] = {"tokens_1.0": tokens, "plen_1.0": np.full(6, 4), "tlen_1.0": np.full(6, 20)}
    np.savez(chats, **content)
    arguments = (*words, "--temperature", "0", "--alignment", str(chats))
    report = json.loads(eredu_command(*arguments, "--alignment-chats", "0", "--json").stdout)
    (found,) = report["alignment"]
    assert (found["temperature"], found["chats"], found["rows"]) == (1.0, 6, 96)
    assert 0 < found["accept"][0] < 1
    assert found["chain"] == sorted(found["chain"], reverse=True)
    shown = eredu_command(*arguments, "--alignment-chats", "3")
    assert "Teacher-forced on held-out chats" in shown.stdout


def test_built_in_prompts(eredu_command: CommandLine, pair: PairDirectories) -> None:
    """The crafted tokenizer drops every letter but a to e, so each of the prompts still has tokens."""
    models = ("--model", str(pair.target), "--assistant", str(pair.draft))
    ran = eredu_command("bench", *models, "--max-tokens", "3", "--repeats", "1", "--temperature", "0", "--json")
    assert ran.status == 0, ran.stderr
    assert len(json.loads(ran.stdout)["prompts"]) >= 10
