from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from eredu.contract.errors import OptionError
from eredu.contract.options import GenerationOptions, SamplingOptions
from eredu.engine.checkpoint import load_checkpoint
from eredu.engine.mlx_backend import Assistant, MlxBackend
from eredu.loaded import LoadedModel
from eredu.mlx.placement import Placement
from eredu_benchmarks.held_out import HeldOutChats
from eredu_benchmarks.measurement import measure, rotated, runs_of
from eredu_benchmarks.mlx_vlm_peer import VlmPeer
from eredu_benchmarks.pair import BenchmarkPair, EncodedPrompt
from eredu_benchmarks.prompts import PROMPTS, Prompt, read_prompts
from eredu_benchmarks.run import Run, Timing
from eredu_benchmarks.setting import PEER_PLAIN, PLAIN, Engine, Setting, settings
from eredu_benchmarks.summary import SettingSummary, summarise
from eredu_conformance.crafted import crafted_pair

ENCODED = (EncodedPrompt("one", (0, 3, 1)), EncodedPrompt("two", (2, 2, 4, 0)))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> BenchmarkPair:
    paths = crafted_pair("order-2").write(tmp_path_factory.mktemp("pair"))
    target, draft = (load_checkpoint(path, tokenizer=None) for path in paths)
    return BenchmarkPair(LoadedModel(MlxBackend(target, Placement.choose())), Assistant(draft))


def by_name(runs: tuple[Run, ...]) -> dict[str, SettingSummary]:
    return {summary.setting.name: summary for summary in summarise(runs)}


def test_settings_and_their_names() -> None:
    assert [each.name for each in settings([2, 7])] == ["plain", "K=2", "K=2 lookahead", "K=7", "K=7 lookahead"]
    assert [each.name for each in settings([4], peers=True)][3:] == ["mlx-lm plain", "mlx-lm K=4"]


def test_heads_do_not_look_ahead_and_meet_peers_that_have_heads() -> None:
    names = [each.name for each in settings([1, 2], peers=True, heads=True)]
    assert names == ["plain", "K=1", "K=2", "mlx-lm plain", "mlx-vlm plain", "mlx-vlm K=1", "mlx-vlm K=2"]


def test_a_peer_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(OptionError, match="pip install mlx-vlm"):
        VlmPeer.load(tmp_path, dtype="float32")


def test_a_peer_that_cannot_load_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    with pytest.raises(OptionError, match="quantized-float16"):
        VlmPeer.load(tmp_path, dtype="quantized-float16")
    broken = ModuleType("mlx_vlm.utils")

    def load_model(path: Path) -> None:
        raise ValueError(f"no model in {path.name}")

    broken.load_model = load_model  # type: ignore[attr-defined]
    drafters = ModuleType("mlx_vlm.speculative.drafters")
    drafters.load_drafter = load_model  # type: ignore[attr-defined]
    for name, module in (("mlx_vlm.utils", broken), ("mlx_vlm.speculative.drafters", drafters)):
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("mlx_vlm", "mlx_vlm.speculative"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with pytest.raises(OptionError, match=r"does not load .*ValueError: no model in"):
        VlmPeer.load(tmp_path, dtype="float32")


def test_repeats_interleave_and_rotate(loaded: BenchmarkPair) -> None:
    chosen = settings([2])
    done: list[int] = []
    options = GenerationOptions(max_tokens=6)
    runs = measure(loaded, ENCODED, chosen, options=options, repeats=3, advance=lambda: done.append(1))
    assert len(done) == runs_of(len(ENCODED), len(chosen), 3) == len(runs) + len(chosen)
    for repeat in range(3):
        part = [run for run in runs if run.repeat == repeat]
        for index, prompt in enumerate(ENCODED):
            turn = [run.setting for run in part if run.prompt == prompt.name]
            assert turn == rotated(chosen, repeat + index)
    assert {rotated(chosen, by)[0] for by in range(3)} == set(chosen)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_settings_agree_as_promised(loaded: BenchmarkPair, temperature: float) -> None:
    options = GenerationOptions(max_tokens=20, sampling=SamplingOptions(temperature=temperature))
    found = by_name(measure(loaded, ENCODED, settings([1, 4]), options=options, repeats=4))
    for name in ("K=1 lookahead", "K=4 lookahead"):
        assert found[name].equal_to_reference == found[name].runs == 8
    for name in ("K=1", "K=4", "K=1 lookahead", "K=4 lookahead"):
        assert (found[name].equal_to_plain == 8) == (temperature == 0.0)
    for each in found.values():
        assert each.tokens == 160
        assert each.statistics is not None
        assert each.statistics.emitted == 160


def test_figures_of_a_run(loaded: BenchmarkPair) -> None:
    options = GenerationOptions(max_tokens=20)
    run = loaded.run(Setting(Engine.EREDU, 4), ENCODED[0], options)
    assert run.statistics is not None
    assert sum(each.emitted for each in run.rounds) == len(run.tokens) == run.timing.total_tokens == 20
    assert len(run.rounds) == run.statistics.rounds
    assert sum(each.proposals for each in run.rounds) == run.statistics.drafted
    assert run.timing.first_tokens == run.rounds[0].emitted
    assert 0 < run.timing.first_s < run.timing.total_s
    assert run.timing.decoding_tokens == 20 - run.rounds[0].emitted


def test_peers_give_the_same_greedy_output(loaded: BenchmarkPair) -> None:
    found = by_name(measure(loaded, ENCODED, settings([3], peers=True), options=GenerationOptions(), repeats=1))
    ours, plain, speculative = found["plain"], found["mlx-lm plain"], found["mlx-lm K=3"]
    assert plain.equal_to_plain == speculative.equal_to_plain == 2
    assert ours.tokens == plain.tokens == 62 + 61  # to the end of the context of 64, the last token no input


def test_peers_stop_at_the_end_of_sequence(tmp_path: Path) -> None:
    paths = crafted_pair("table-eos").write(tmp_path)
    target, draft = (load_checkpoint(path, tokenizer=None) for path in paths)
    pair = BenchmarkPair(LoadedModel(MlxBackend(target, Placement.choose())), Assistant(draft))
    ending = pair.run(PLAIN, EncodedPrompt("free", (0, 1)), GenerationOptions(max_tokens=12)).tokens[5]
    options = GenerationOptions(max_tokens=12, eos_ids=frozenset({ending}))
    outputs = [pair.run(each, EncodedPrompt("e", (0, 1)), options).tokens for each in settings([3], peers=True)]
    assert all(output == outputs[0] for output in outputs)
    assert outputs[0][-1] == ending
    assert len(outputs[0]) <= 6


def test_peers_are_greedy_only(loaded: BenchmarkPair) -> None:
    with pytest.raises(OptionError, match="greedy"):
        loaded.run(PEER_PLAIN, ENCODED[0], GenerationOptions(sampling=SamplingOptions(temperature=1.0)))


def made(setting: Setting, repeat: int, prompt: str, seconds: float, tokens: tuple[int, ...] = (1, 2, 3)) -> Run:
    return Run(setting, repeat, prompt, tokens, Timing(1.0, 1, 1.0 + seconds, 11))


def test_summary_takes_ratios_inside_a_repeat() -> None:
    """The second repeat ran on a machine half as fast: speeds move, ratios do not."""
    fast, ahead = Setting(Engine.EREDU, 4), Setting(Engine.EREDU, 4, lookahead=True)
    seconds = {PLAIN: 4.0, fast: 2.0, ahead: 1.0}
    runs = tuple(
        made(setting, repeat, prompt, own * slow, tokens=(1, 2, 3) if setting != ahead or repeat else (1, 2, 4))
        for repeat, slow in enumerate((1.0, 2.0, 1.0))
        for prompt in ("a", "b")
        for setting, own in seconds.items()
    )
    found = by_name(runs)
    assert found["plain"].tokens_per_s.median == pytest.approx(20 / 8)
    assert found["plain"].tokens_per_s.low == pytest.approx(20 / 16)
    ratio, reference = found["K=4"].ratio_to_plain, found["K=4 lookahead"].ratio_to_reference
    assert (ratio.low, ratio.median, ratio.high) == pytest.approx((2, 2, 2))
    assert reference is not None
    assert reference.median == pytest.approx(2)
    assert found["K=4"].ratio_to_reference is None
    assert (found["K=4"].equal_to_plain, found["K=4 lookahead"].equal_to_plain) == (6, 4)


def test_built_in_prompts_are_varied() -> None:
    assert len(PROMPTS) >= 10
    assert len({prompt.name for prompt in PROMPTS}) == len({prompt.text for prompt in PROMPTS}) == len(PROMPTS)


def test_prompts_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        '{"prompt": "Hello"}\n\n{"prompt": "Say", "name": "say", "system": "Be brief."}\n', encoding="utf-8"
    )
    assert read_prompts(path) == (Prompt("line-1", "Hello"), Prompt("say", "Say", "Be brief."))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no prompt"),
        (b'{"prompt": "a"}\n{"prompt"', "line 2, could not be read as JSON"),
        (b'["a"]', "line 1"),
        (b'{"text": "a"}', "expected an object with the text 'prompt'"),
        (b'{"prompt": 3}', "expected an object"),
        (b'{"prompt": "a", "temperature": "1"}', "expected an object"),
        (b'{"prompt": "a", "name": "x"}\n{"prompt": "b", "name": "x"}', "uses the name 'x' more than once"),
        (b"\xff", "cannot be read"),
    ],
)
def test_bad_prompt_files(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(content)
    with pytest.raises(OptionError, match=said):
        read_prompts(path)


def write_chats(path: Path, **arrays: list[int]) -> Path:
    content: dict[str, Any] = {name: np.array(values, dtype=np.uint16) for name, values in arrays.items()}
    np.savez(path, **content)
    return path


def test_held_out_chats(tmp_path: Path) -> None:
    plain = write_chats(
        tmp_path / "chats.npz",
        **{"tokens_1.0": [1, 2, 3, 4, 5, 6, 7], "plen_1.0": [1, 2], "tlen_1.0": [3, 4]},
        **{"tokens_0.0": [1, 2], "plen_0.0": [1], "tlen_0.0": [2]},
    )
    packed = tmp_path / "chats.npz.xz"
    packed.write_bytes(lzma.compress(plain.read_bytes()))
    for path in (plain, packed):
        chats = HeldOutChats.read(path).by_temperature
        assert chats.keys() == {0.0, 1.0}
        first, second = chats[1.0]
        assert (first.tokens.tolist(), second.tokens.tolist()) == ([1, 2, 3], [4, 5, 6, 7])
        assert (second.prompt_length, second.reply_rows) == (2, slice(1, 3))


def test_held_out_chats_are_spread(tmp_path: Path) -> None:
    count = 10
    arrays = {"tokens_1.0": [7, *range(1, 2 * count)], "plen_1.0": [1] * count, "tlen_1.0": [2] * count}
    chats = HeldOutChats.read(write_chats(tmp_path / "chats.npz", **arrays))
    assert [int(chat.tokens[1]) for chat in chats.spread(1.0, 3)] == [1, 7, 13]
    assert len(chats.spread(1.0, None)) == len(chats.spread(1.0, 99)) == count


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"plen_1.0": [1]}, "no array called tokens_"),
        ({"tokens_1.0": [1, 2, 3]}, "plen_1.0|tlen_1.0"),
        ({"tokens_1.0": [1, 2, 3], "plen_1.0": [1], "tlen_1.0": [2]}, "do not add up to its 3 tokens"),
        ({"tokens_1.0": [1, 2, 3], "plen_1.0": [3], "tlen_1.0": [3]}, "no prompt or no reply"),
        ({"tokens_1.0": [1, 2, 3], "plen_1.0": [0], "tlen_1.0": [3]}, "no prompt or no reply"),
    ],
)
def test_bad_chat_files(tmp_path: Path, arrays: dict[str, list[int]], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        HeldOutChats.read(write_chats(tmp_path / "chats.npz", **arrays))


@pytest.mark.parametrize("name", ["chats.npz", "chats.npz.xz"])
def test_files_that_are_no_chats(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(json.dumps({"tokens": []}), encoding="utf-8")
    with pytest.raises(OptionError, match="is no file of held-out chats"):
        HeldOutChats.read(path)
