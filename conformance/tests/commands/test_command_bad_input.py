"""Every kind of bad input: exit status 2, one message that names what was wrong, nothing on stdout."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eredu_conformance.crafted import PairDirectories, crafted_pair

CommandLine = Callable[..., Any]
Refusal = Callable[..., None]


@pytest.fixture
def refused(eredu_command: CommandLine) -> Refusal:
    def check(said: str, *arguments: str, stdin: bytes = b"") -> None:
        for json_option in ((), ("--json",)):
            ran = eredu_command(*arguments, *json_option, stdin=stdin)
            require_one_message(ran)
            assert said in ran.stderr

    return check


def require_one_message(ran: Any) -> None:
    assert ran.status == 2, ran
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr
    assert "nobody foresaw" not in ran.stderr
    assert ran.stderr.startswith("eredu: error: ")
    assert ran.stderr.count("eredu: error: ") == 1, ran.stderr


def copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def test_missing_files(
    refused: Refusal, pair: PairDirectories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused("neither a path that exists", "generate", "--model", str(tmp_path / "none"), "abc")
    refused(
        "neither a path that exists", "generate", "--model", str(pair.target), "--assistant", "no-such-draft", "abc"
    )
    monkeypatch.setenv("EREDU_CACHE", str(tmp_path))
    refused("fetch it once: eredu fetch smollm2", "generate", "--model", "smollm2", "abc")
    empty = tmp_path / "empty"
    empty.mkdir()
    refused(str(empty), "generate", "--model", str(empty), "abc")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("role", ["target", "draft"])
def test_incomplete_directory(refused: Refusal, pair: PairDirectories, tmp_path: Path, name: str, role: str) -> None:
    directories = {"target": pair.target, "draft": pair.draft}
    directories[role] = copied(directories[role], tmp_path / role)
    (directories[role] / name).unlink()
    models = ("--model", str(directories["target"]), "--assistant", str(directories["draft"]))
    refused(str(tmp_path / role), "generate", *models, "abc")


def test_garbage(refused: Refusal, pair: PairDirectories, tmp_path: Path) -> None:
    text = tmp_path / "notes.gguf"
    text.write_text("these are my notes, not a model", encoding="utf-8")
    refused(str(text), "generate", "--model", str(text), "abc")
    directory = copied(pair.target, tmp_path / "broken")
    (directory / "config.json").write_text("{", encoding="utf-8")
    refused(str(directory), "generate", "--model", str(directory), "abc")


def test_mismatched_tokenizer(refused: Refusal, pair: PairDirectories, tmp_path: Path) -> None:
    other = crafted_pair("table").write(tmp_path / "other")
    refused("tokenizer", "generate", "--model", str(pair.target), "--assistant", str(other.draft), "abc")
    swapped = copied(pair.draft, tmp_path / "swapped")
    tokenizer = json.loads((swapped / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["model"]["vocab"] |= {"a": 1, "b": 0}
    (swapped / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    refused("tokenizer", "generate", "--model", str(pair.target), "--assistant", str(swapped), "abc")
    refused("tokenizer", "bench", "--model", str(pair.target), "--assistant", str(swapped), "--repeats", "1")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-k", "-1"), "max_proposals (K) was -1"),
        (("-k", "65"), "max_proposals (K) was 65"),
        (("--max-tokens", "0"), "max_tokens was 0"),
        (("--temperature", "-0.1"), "temperature was -0.1"),
        (("--temperature", "nan"), "temperature was nan"),
        (("--top-k", "-1"), "top_k was -1"),
        (("--top-p", "0"), "top_p was 0"),
        (("--top-p", "1.5"), "top_p was 1.5"),
        (("--min-p", "2"), "min_p was 2"),
        (("--repetition-penalty", "0"), "repetition_penalty was 0"),
        (("--repeat-last-n", "-5"), "repeat_last_n was -5"),
        (("--frequency-penalty", "inf"), "frequency_penalty was inf"),
        (("--presence-penalty", "1e9"), "presence_penalty was"),
        (("--seed", "-1"), "seed was -1"),
        (("--seed", str(2**64)), f"seed was {2**64}"),
        (("--lookahead-depth", "1"), "lookahead_depth was 1"),
        (("--logit-bias", "seven"), "--logit-bias was 'seven'; expected ID:BIAS"),
        (("--logit-bias", "3"), "--logit-bias was '3'"),
        (("--logit-bias", "1:2", "--logit-bias", "1:3"), "names id 1 twice"),
        (("--logit-bias", "900:1"), "logit_bias id 900 is outside the vocabulary of 5 ids"),
        (("--logit-bias", "1:nan"), "logit_bias of id 1 was nan"),
        (("--stop", ""), "stop_strings"),
        (("--dtype", "int3"), "dtype was 'int3'"),
        (("--placement", "everywhere"), "placement was 'everywhere'"),
        (("--raw", "--system", "abc"), "--raw"),
        (("--trace", "/no/such/folder/trace.jsonl"), "/no/such/folder/trace.jsonl cannot be written"),
    ],
)
def test_bad_options(refused: Refusal, pair: PairDirectories, options: tuple[str, ...], said: str) -> None:
    models = ("--model", str(pair.target), "--assistant", str(pair.draft))
    refused(said, "generate", *models, *options, "abc")


@pytest.mark.parametrize("option", ["-k", "--seed", "--max-tokens", "--temperature", "--acceptance"])
def test_options_that_are_no_number(eredu_command: CommandLine, option: str) -> None:
    ran = eredu_command("generate", "--model", "m", option, "many", "abc")
    assert (ran.status, ran.stdout) == (2, "")
    assert "Invalid value for" in ran.stderr
    assert option in ran.stderr


def test_bad_prompts(refused: Refusal, pair: PairDirectories, tmp_path: Path) -> None:
    model = ("generate", "--model", str(pair.target))
    refused("the prompt is empty", *model, "")
    refused("the prompt is empty", *model, " \n")
    refused("the prompt is empty", *model, "-", stdin=b"")
    refused("standard input is not UTF-8", *model, "-", stdin=b"\xff\xfe")
    refused("the prompt has no token", *model, "123")
    refused("the prompt has 70 tokens and the target takes 64", *model, "a" * 70)
    refused("lone surrogate", *model, "ab\udc80")
    bare = copied(pair.target, tmp_path / "bare")
    config = json.loads((bare / "tokenizer_config.json").read_text(encoding="utf-8"))
    del config["chat_template"]
    (bare / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    refused("give --raw", "generate", "--model", str(bare), "abc")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-k", "0"), "K was 0"),
        (("-k", "2", "-k", "65"), "K was 65"),
        (("--repeats", "0"), "repeats was 0"),
        (("--temperature", "-1"), "temperature was -1"),
        (("--max-tokens", "0"), "max_tokens was 0"),
        (("--peers", "--temperature", "1"), "add temperature 0"),
        (("--alignment-chats", "1"), "1 held-out chats"),
        (("--alignment", "/no/such/chats.npz"), "/no/such/chats.npz is no file of held-out chats"),
        (("--prompts", "/no/such/prompts.jsonl"), "/no/such/prompts.jsonl cannot be read"),
        (("--output", "/no/such/folder/result.json"), "/no/such/folder/result.json cannot be written"),
        (("--seed", "-1"), "seed was -1"),
    ],
)
def test_bad_benchmarks(refused: Refusal, pair: PairDirectories, options: tuple[str, ...], said: str) -> None:
    refused(said, "bench", "--model", str(pair.target), "--assistant", str(pair.draft), *options)
