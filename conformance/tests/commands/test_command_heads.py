"""Whole command lines with prediction heads: the target's own, those in a directory, and damaged ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eredu.contract.options import USUAL_PROPOSALS
from eredu.engine import probe
from eredu_conformance.zoo import Damage, ZooMember, write_damaged, write_head, zoo_member

LENGTH = 24


@pytest.fixture(scope="module")
def member() -> ZooMember:
    """A Qwen3.5 of random weights that states how its head is wired, so that no command probes it."""
    found = zoo_member("qwen3.5")
    words = {"hidden": "after-norm", "first": "embedding", "chain": "after-norm"}
    return replace(found, config={**found.config, "wiring": words, "max_proposals": 4})


@pytest.fixture(scope="module")
def model(member: ZooMember, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(member.write(tmp_path_factory.mktemp("model")))


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EREDU_CACHE", str(tmp_path / "cache"))


def generated(command: Callable[..., Any], *arguments: str) -> dict[str, Any]:
    fixed = ("--raw", "abc", "--max-tokens", str(LENGTH), "--temperature", "0", "--json")
    ran = command("generate", *arguments, *fixed)
    assert ran.status == 0, ran.stderr
    value: dict[str, Any] = json.loads(ran.stdout)
    return value


def test_a_target_s_own_heads_propose(eredu_command: Callable[..., Any], model: str) -> None:
    with_heads, without = generated(eredu_command, "-m", model), generated(eredu_command, "-m", model, "--no-mtp")
    assert (with_heads["mtp"], with_heads["head"], with_heads["assistant"]) == (True, None, None)
    assert with_heads["statistics"]["drafted"] > 0
    assert with_heads["statistics"]["requested_depth"] == USUAL_PROPOSALS
    assert (without["mtp"], without["statistics"]["drafted"]) == (False, 0)
    assert with_heads["tokens"] == without["tokens"]


@pytest.mark.parametrize("layout", ["mlx", "pt"])
def test_heads_in_a_directory_propose(
    eredu_command: Callable[..., Any], member: ZooMember, model: str, tmp_path: Path, layout: str
) -> None:
    bare = str(replace(member, head={}).write(tmp_path / "bare"))
    head = str(write_head(member, tmp_path / "head", layout=layout))
    assert generated(eredu_command, "-m", bare)["mtp"] is False
    beside = generated(eredu_command, "-m", bare, "--head", head)
    assert (beside["mtp"], beside["head"]) == (True, head)
    assert beside["tokens"] == generated(eredu_command, "-m", model)["tokens"]
    assert generated(eredu_command, "-m", bare, "--head", head, "--no-mtp")["head"] is None


def test_a_model_has_one_drafter(eredu_command: Callable[..., Any], model: str) -> None:
    ran = eredu_command("generate", "-m", model, "--head", model, "--assistant", model, "hello")
    assert ran.status == 2
    assert "--assistant and --head are two drafters" in ran.stderr


def test_inspect_says_that_heads_are_claimed_alone(
    eredu_command: Callable[..., Any], member: ZooMember, tmp_path: Path
) -> None:
    ran = eredu_command("inspect", str(write_damaged(member, tmp_path / "damaged", Damage.HEAD_ABSENT)), "--json")
    assert ran.status == 2
    assert "ships none of their tensors" in ran.stderr
    assert json.loads(ran.stdout)["mtp"]["capability"] == {"state": "unavailable"}


def test_heads_that_are_claimed_and_not_used_are_told(
    eredu_command: Callable[..., Any], member: ZooMember, model: str, tmp_path: Path
) -> None:
    """One line on stderr; --mtp makes it an error; nothing where nothing was to be expected, or --no-mtp was given."""
    bare = str(write_damaged(member, tmp_path / "damaged", Damage.HEAD_ABSENT))
    llama = str(zoo_member("llama").write(tmp_path / "llama"))
    ran = eredu_command("generate", "-m", bare, "--max-tokens", "2", "a")
    assert (ran.status, ran.stderr.count("\n")) == (0, 1)
    assert "eredu: decoding plainly: the checkpoint claims 1 prediction head and ships none" in ran.stderr
    assert eredu_command("generate", "-m", bare, "--max-tokens", "2", "--no-mtp", "a").stderr == ""
    assert eredu_command("generate", "-m", llama, "--max-tokens", "2", "a").stderr == ""
    for target in (bare, llama):
        ran = eredu_command("generate", "-m", target, "--mtp", "a")
        assert (ran.status, ran.stdout) == (2, "")
        assert "this needs a drafter, and there is none" in ran.stderr
    ran = eredu_command("generate", "-m", model, "--max-tokens", "2", "--mtp", "a")
    assert (ran.status, ran.stderr) == (0, "")


def test_inspect_shows_depth_and_caches(eredu_command: Callable[..., Any], model: str) -> None:
    report = json.loads(eredu_command("inspect", model, "--json").stdout)
    assert report["mtp"]["capability"] == {"state": "ready", "checkpoint": "embedded"}
    assert report["mtp"]["usable_depth"] == 4
    assert {cache["kind"]: cache["rollback"] for cache in report["caches"]} == {
        "recurrent": "exact",
        "full-attention": "exact",
    }
    shown = eredu_command("inspect", model).stdout
    assert "4 proposals a round" in shown
    assert "ready embedded" in shown


def test_inspect_reads_a_directory_of_heads(
    eredu_command: Callable[..., Any], member: ZooMember, model: str, tmp_path: Path
) -> None:
    head = str(write_head(member, tmp_path / "head"))
    report = json.loads(eredu_command("inspect", head, "--json").stdout)
    assert (report["family"], report["layers"], report["mtp"]["tensors"]) == ("qwen3_5_mtp", 1, 15)
    assert report["caches"] == [{"kind": "full-attention", "layers": 1, "window": None, "rollback": "exact"}]
    beside = json.loads(eredu_command("inspect", model, "--head", head, "--json").stdout)
    assert beside["head"]["capability"]["state"] == "ready"
    assert f"heads in {head}" in eredu_command("inspect", model, "--head", head).stdout
    other = tmp_path / "head" / "config.json"
    config = json.loads(other.read_text())
    other.write_text(json.dumps({**config, "text_config": {**config["text_config"], "hidden_size": 32}}))
    said = set()
    for words in (["inspect", model], ["generate", "-m", model, "a"]):
        ran = eredu_command(*words, "--head", head)
        assert ran.status == 2
        said.add(ran.stderr)
    assert "read hidden states of 32 numbers, and the target has 64" in said.pop()
    assert not said


def test_inspect_probes(
    eredu_command: Callable[..., Any], model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "ANSWER", probe.ANSWER[:300])
    ran = eredu_command("inspect", model, "--probe", "--json")
    report = json.loads(ran.stdout)["probe"]
    assert report["stated"] == "hidden after norm, embedding first, chain after norm"
    assert len(report["wirings"]) == 8
    assert len(report["depths"]) == 8
    assert [path.suffix for path in (tmp_path / "cache" / "probes").iterdir()] == [".json"]
    shown = eredu_command("inspect", model, "--probe").stdout
    for part in ("Probe of the head", "stated", "norms shifted once less", "hidden first"):
        assert part in shown
    bare = eredu_command("inspect", "smollm2-draft", "--probe")
    assert bare.status == 2
    assert "no prediction heads to probe" in bare.stderr


def test_bench_measures_heads(eredu_command: Callable[..., Any], model: str, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"name": "a", "prompt": "abc"}\n')
    ran = eredu_command(
        "bench", "-m", model, "--prompts", str(prompts), "--repeats", "1", "--max-tokens", "12", "-k", "3",
        "--temperature", "0", "--json",
    )  # fmt: skip
    assert ran.status == 0, ran.stderr
    settings = json.loads(ran.stdout)["temperatures"][0]["settings"]
    assert [each["name"] for each in settings] == ["plain", "K=3"], "heads do not look ahead"
    assert settings[1]["equal_to_plain"] == settings[1]["runs"] == 1


def test_bench_needs_a_drafter(eredu_command: Callable[..., Any], member: ZooMember, tmp_path: Path) -> None:
    bare = str(replace(member, head={}).write(tmp_path))
    ran = eredu_command("bench", "-m", bare)
    assert ran.status == 2
    assert "ships none of their tensors" in ran.stderr


def test_every_command_refuses_in_the_same_words(
    eredu_command: Callable[..., Any], member: ZooMember, tmp_path: Path
) -> None:
    """Config against tensors, and a part of a head: decided once."""
    other = member.write(tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "text_config": {**config["text_config"], "head_dim": 8}}))
    half = write_damaged(member, tmp_path / "half", Damage.HEAD_HALF_ABSENT)
    for path, said in ((str(other), "of head_dim 8, and"), (str(half), "of their tensors 7 are missing")):
        commands = (["inspect", path], ["generate", "-m", path, "a"], ["validate", path])
        answers = {(ran.status, ran.stderr) for ran in (eredu_command(*words) for words in commands)}
        assert len(answers) == 1, answers
        status, message = answers.pop()
        assert (status, message.count("\n")) == (2, 1)
        assert said in message
