from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import pytest

from eredu.contract.options import GenerationOptions
from eredu_benchmarks.measurement import measure
from eredu_benchmarks.overlap import PROMPTS, load_overlap_pair, same_tokens
from eredu_benchmarks.overlap_pair import OverlapShape
from eredu_benchmarks.pair import BenchmarkPair
from eredu_benchmarks.setting import settings
from eredu_benchmarks.summary import summarise

SMALL = OverlapShape(target_layers=3, draft_layers=1, hidden=64, intermediate=96, heads=2, vocabulary=256, context=128)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> BenchmarkPair:
    return load_overlap_pair(SMALL, tmp_path_factory.mktemp("overlap"))


def test_draft_and_target_are_one_function(pair: BenchmarkPair) -> None:
    tokens = mx.array([3, 1, 4, 1, 5])
    target, draft = pair.target_model, pair.assistant_model
    ours = target.new_cache().feed(target.model, tokens)
    theirs = draft.new_cache().feed(draft.model, tokens)
    assert mx.array_equal(ours, theirs).item()
    assert (ours.std() > 0.1).item()


def test_every_proposal_is_right_and_no_token_changes(pair: BenchmarkPair) -> None:
    runs = measure(pair, PROMPTS, settings([3]), options=GenerationOptions(max_tokens=41), repeats=2)
    summaries = summarise(runs)
    assert same_tokens(summaries)
    _, off, ahead = summaries
    for each in (off, ahead):
        assert each.acceptance is not None
        assert each.acceptance.conditional == (1.0, 1.0, 1.0)
    assert off.statistics is not None
    assert ahead.statistics is not None
    assert off.statistics.lookahead_blocks == 0
    assert ahead.statistics.lookahead_promoted == ahead.statistics.lookahead_blocks > 0


def test_a_differing_token_is_seen(pair: BenchmarkPair) -> None:
    runs = list(measure(pair, PROMPTS, settings([3]), options=GenerationOptions(max_tokens=9), repeats=1))
    changed = runs[-1]
    runs[-1] = type(changed)(changed.setting, changed.repeat, changed.prompt, (0,), changed.timing, changed.rounds,
                             changed.statistics)  # fmt: skip
    assert not same_tokens(summarise(runs))


def test_later_layers_cost_but_say_nothing(tmp_path: Path) -> None:
    target, draft = SMALL.write(tmp_path)
    weights = mx.load(str(target / "model.safetensors"))
    assert isinstance(weights, dict)
    for layer in range(SMALL.target_layers):
        silent = layer >= SMALL.draft_layers
        assert bool((weights[f"model.layers.{layer}.mlp.down_proj.weight"] == 0).all().item()) == silent
        assert not (weights[f"model.layers.{layer}.mlp.up_proj.weight"] == 0).all().item()
    assert json.loads((draft / "config.json").read_text(encoding="utf-8"))["num_hidden_layers"] == 1


def test_the_pair_of_the_benchmark_costs_half() -> None:
    assert OverlapShape().draft_share(3) == pytest.approx(0.5, abs=0.05)
