from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eredu.commands import generate as generate_module
from eredu_conformance.crafted import PairDirectories

CommandLine = Callable[..., Any]
LENGTH = 24


def words(pair: PairDirectories, *options: str, prompt: str = "adb") -> tuple[str, ...]:
    return (
        *("generate", "--model", str(pair.target), "--assistant", str(pair.draft)),
        *("--max-tokens", str(LENGTH), *options, prompt),
    )


def described(command: CommandLine, *arguments: str) -> dict[str, Any]:
    ran = command(*arguments, "--json")
    assert (ran.status, ran.stderr) == (0, "")
    value: dict[str, Any] = json.loads(ran.stdout)
    return value


def test_text_streams_to_stdout_alone(eredu_command: CommandLine, pair: PairDirectories) -> None:
    ran = eredu_command(*words(pair))
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.stdout.endswith("\n")
    assert len(ran.stdout) == LENGTH + 1
    assert set(ran.stdout.strip()) <= set("abcde")


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
def test_one_seed_one_text(eredu_command: CommandLine, pair: PairDirectories, rule: str) -> None:
    texts = [
        eredu_command(*words(pair, "--acceptance", rule, "--temperature", "1", "--seed", seed)).stdout
        for seed in ("7", "7", "8")
    ]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("sampling", [("--acceptance", "coupled", "--temperature", "1"), ("--temperature", "0")])
def test_assistant_changes_no_token(
    eredu_command: CommandLine, pair: PairDirectories, sampling: tuple[str, ...]
) -> None:
    plain = described(eredu_command, *words(pair, "--no-mtp", *sampling))
    assert not plain["mtp"]
    assert plain["statistics"]["drafted"] == 0
    assert plain["assistant"] is None
    for proposals in ("1", "2", "4", "7"):
        for lookahead in ("--lookahead", "--no-lookahead"):
            mtp = described(eredu_command, *words(pair, "-k", proposals, lookahead, *sampling))
            assert mtp["mtp"]
            assert mtp["statistics"]["accepted"] > 0
            assert mtp["tokens"] == plain["tokens"], (proposals, lookahead)
            assert (mtp["statistics"]["lookahead_blocks"] > 0) == (lookahead == "--lookahead")


def test_no_assistant_is_plain_decoding(eredu_command: CommandLine, pair: PairDirectories) -> None:
    alone = described(eredu_command, "generate", "--model", str(pair.target), "--max-tokens", str(LENGTH), "adb")
    assert alone["tokens"] == described(eredu_command, *words(pair, "--no-mtp"))["tokens"]


def test_json_form(eredu_command: CommandLine, pair: PairDirectories) -> None:
    value = described(eredu_command, *words(pair, "--seed", "5"))
    assert value.keys() == {
        *(
            "model",
            "assistant",
            "head",
            "mtp",
            "seed",
            "tokens",
            "text",
            "finish",
            "statistics",
            "schedule",
            "versions",
        ),
    }
    assert (value["seed"], value["finish"], len(value["tokens"])) == (5, "length", LENGTH)
    assert value["text"] == "".join("abcde"[token] for token in value["tokens"])
    assert value["statistics"]["emitted"] == LENGTH
    assert value["schedule"]["requests"]["rounds"] == value["statistics"]["rounds"]
    assert value["versions"].keys() == {"python", "eredu", "mlx", "mlx-lm"}


def test_statistics_go_to_stderr(eredu_command: CommandLine, pair: PairDirectories) -> None:
    plain, shown = eredu_command(*words(pair)), eredu_command(*words(pair, "--stats"))
    assert shown.stdout == plain.stdout
    for name in ("lookahead_reused", "accepted_by_position", "tokens_per_round", "turns", "peak_in_flight"):
        assert name in shown.stderr


def test_trace_is_json_lines(eredu_command: CommandLine, pair: PairDirectories, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    value = described(eredu_command, *words(pair, "--trace", str(path)))
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert (events[0]["event"], events[-1]["event"]) == ("open", "close")
    published = [token for event in events if event["event"] == "publish" for token in event["tokens"]]
    assert published == value["tokens"]


def test_prompt_from_standard_input(eredu_command: CommandLine, pair: PairDirectories) -> None:
    piped = eredu_command(*words(pair, prompt="-"), stdin=b"adb\n")
    assert piped.stdout == eredu_command(*words(pair)).stdout


def test_raw_and_system_reach_the_prompt(eredu_command: CommandLine, pair: PairDirectories) -> None:
    chat = described(eredu_command, *words(pair, "--system", "ceb"))
    raw = described(eredu_command, *words(pair, "--raw", prompt="cebadb"))
    assert chat["statistics"]["prompt_tokens"] == 6
    assert chat["tokens"] == raw["tokens"]


def test_stop_text_is_cut(eredu_command: CommandLine, pair: PairDirectories) -> None:
    whole = described(eredu_command, *words(pair))
    stop = whole["text"][5:8]
    value = described(eredu_command, *words(pair, "--stop", "zz", "--stop", stop))
    assert value["finish"] == "stop"
    assert value["text"] == whole["text"][: whole["text"].index(stop)]


def test_sampling_options_reach_the_sampler(eredu_command: CommandLine, pair: PairDirectories) -> None:
    greedy = described(eredu_command, *words(pair, "--temperature", "0"))["tokens"]
    for narrow in (("--top-k", "1"), ("--top-p", "0.0001"), ("--min-p", "1")):
        assert described(eredu_command, *words(pair, "--temperature", "1", *narrow))["tokens"] == greedy
    biased = described(eredu_command, *words(pair, "--logit-bias", "1:-1000", "--logit-bias", "2:-1e3"))
    assert not {1, 2} & set(biased["tokens"])
    spread = described(eredu_command, *words(pair, "--temperature", "0", "--presence-penalty", "90"))["tokens"]
    assert sorted(spread[:5]) == [0, 1, 2, 3, 4]
    for weight in (("--frequency-penalty", "90"), ("--repetition-penalty", "900", "--repeat-last-n", "4")):
        found = described(eredu_command, *words(pair, "--temperature", "0", *weight))["tokens"]
        assert found != greedy, weight
    assert described(eredu_command, *words(pair, "--lookahead-depth", "2"))["statistics"]["lookahead_reused"] > 0


def test_gguf_with_a_tokenizer_of_its_own(eredu_command: CommandLine, gguf_file: Path) -> None:
    ran = eredu_command("generate", "-m", str(gguf_file), "--raw", "--max-tokens", "9", "abc")
    assert (ran.status, ran.stderr) == (0, "")
    assert 10 <= len(ran.stdout) <= 19


def test_interrupt_keeps_what_was_printed(
    eredu_command: CommandLine, pair: PairDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = eredu_command(*words(pair)).stdout
    write, printed = generate_module._write, []

    def interrupted(text: str) -> None:
        write(text)
        printed.append(text)
        if len(printed) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(generate_module, "_write", interrupted)
    ran = eredu_command(*words(pair))
    assert ran.status == 130
    assert ran.stdout == "".join(printed)
    assert printed[3:] == ["\n"]
    assert whole.startswith("".join(printed[:3]))
    assert ran.stderr == "interrupted\n"
