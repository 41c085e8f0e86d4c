"""Teacher-forced acceptance of heads: by depth, as a chain, under each wiring."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from eredu.checkpoints.wiring import Wiring
from eredu.contract.errors import OptionError
from eredu.contract.options import GenerationOptions, SamplingOptions
from eredu.engine.alignment import FollowedRows
from eredu.engine.load import load_target
from eredu.prepared import PreparedRequest
from eredu_benchmarks.benchmark import BenchmarkPlan, align_all
from eredu_benchmarks.head_alignment import HeadRows, align_heads
from eredu_benchmarks.held_out import Chat, HeldOutChats
from eredu_benchmarks.pair import BenchmarkPair
from eredu_benchmarks.report import BenchmarkReport
from eredu_conformance.zoo import zoo_member


def followed(accept: list[float], agrees: list[bool], ratio: list[float]) -> FollowedRows:
    return FollowedRows(np.array(accept), np.array(agrees), np.array(ratio))


def test_a_chain_takes_each_depth_at_its_own_token() -> None:
    depths = [
        followed([0.9, 0.8, 0.7, 0.6], [True, False, True, True], [0.5, 0.4, 0.3, 0.2]),
        followed([0.55, 0.45, 0.35], [True, True, False], [0.1, 0.2, 0.3]),
    ]
    rows = HeadRows.of(depths, greedy=False)
    assert rows.accept[0].tolist() == [0.8, 0.7, 0.6], "tokens that every depth has"
    assert rows.chain(1).tolist() == [0.8, 0.7]
    assert rows.chain(2).tolist() == pytest.approx([0.4 * 0.45, 0.3 * 0.35])
    greedy = HeadRows.of(depths, greedy=True)
    assert greedy.chain(1).tolist() == [0, 1]
    assert greedy.chain(2).tolist() == [0 * 1, 1 * 0]


@pytest.fixture(scope="module")
def pair() -> BenchmarkPair:
    return BenchmarkPair(load_target("tiny-qwen3.5", dtype="float32"))


@pytest.fixture(scope="module")
def chats(pair: BenchmarkPair) -> tuple[Chat, ...]:
    """Texts that the target wrote itself, greedily and short."""
    tokenizer = pair.model.backend.target.tokenizer
    assert tokenizer is not None
    found = []
    for text in ("Write a short story about a dog.", "How do I bake bread?"):
        prompt = tokenizer.apply_chat([{"role": "user", "content": text}])
        options = GenerationOptions(max_tokens=40, sampling=SamplingOptions(temperature=0.0))
        request = PreparedRequest(prompt=prompt, options=options)
        reply = pair.model.generate_prepared_chat([request]).results[0].tokens
        found.append(Chat(np.array([*prompt, *reply]), len(prompt)))
    return tuple(found)


def test_wrong_wirings_of_a_trained_head_fall_short_or_do_not_differ(
    pair: BenchmarkPair, chats: tuple[Chat, ...]
) -> None:
    done: list[int] = []
    found = align_heads(pair, pair.heads.variants(), chats, 1.0, advance=lambda: done.append(1))
    assert len(done) == len(chats)
    assert next(iter(found)) == str(Wiring()), "its own first"
    right = found[str(Wiring())]
    assert right.accept.mean > 0.6
    assert right.accept.clusters == len(chats)
    assert all(abs(link.mean) <= right.accept.mean for link in right.chain[1:])
    for name, other in found.items():
        if "hidden first" in name:
            assert other.accept.mean < 0.2
        else:
            # The final norm of so small a target is nearly flat: both sides of it say the same within .01 a depth.
            assert sum(each.mean for each in other.accepts) < sum(each.mean for each in right.accepts) + 0.01
    assert right.to_json()["wiring"] == str(Wiring())
    assert right.to_json()["accept"] == [each.mean for each in right.accepts]


def test_greedy_acceptance_is_agreement(pair: BenchmarkPair, chats: tuple[Chat, ...]) -> None:
    greedy = align_heads(pair, {"own": pair.heads}, chats, 0.0)["own"]
    rows = greedy.accept.rows
    assert greedy.accept.mean * rows == pytest.approx(round(greedy.accept.mean * rows))
    assert greedy.accept.mean > 0.6
    assert math.isclose(greedy.expected_tokens, 1 + sum(link.mean for link in greedy.chain))


def test_other_wirings_are_measured_once(pair: BenchmarkPair, chats: tuple[Chat, ...]) -> None:
    plan = BenchmarkPlan(
        proposals=(2,),
        temperatures=(0.0,),
        options=GenerationOptions(max_tokens=4),
        repeats=1,
        chats=HeldOutChats({1.0: chats, 0.0: chats}),
    )
    found = align_all(pair, plan, lambda *_: lambda: None)
    assert [each.temperature for each in found] == [1.0] * 8 + [0.0]
    assert found[0].wiring == found[-1].wiring == str(Wiring())
    assert BenchmarkReport({}, (), found).to_json()["alignment"][0]["wiring"] == str(Wiring())


def test_a_pair_without_drafter_says_so(tmp_path: Path) -> None:
    bare = BenchmarkPair(load_target(zoo_member("llama").write(tmp_path)))
    with pytest.raises(OptionError, match="no prediction heads to measure"):
        _ = bare.heads
    with pytest.raises(OptionError, match="there is no draft model"):
        _ = bare.assistant_model
