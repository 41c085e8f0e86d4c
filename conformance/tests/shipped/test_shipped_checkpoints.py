"""The small trained checkpoints inside the package: they load elsewhere too, know their text, and follow themselves."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.utils import load_model

from eredu.checkpoints.names import shipped_path
from eredu.contract.options import GenerationOptions, SamplingOptions
from eredu.engine.alignment import FollowedRows, TargetRows, follow
from eredu.engine.load import load_target
from eredu.families.prediction_heads import PredictionHeads
from eredu.mlx.taps import Recording
from eredu.prepared import PreparedRequest

QWEN, DEEPSEEK = "tiny-qwen3.5", "tiny-deepseek-v3"
NAMES = (QWEN, DEEPSEEK)
HELD_OUT = Path(__file__).with_name("held_out_chats.npz")
TRAINED = "hidden before norm, embedding first, chain before norm"
DEPTH = 3
MEGABYTES = 11


def chats(temperature: str) -> list[tuple[list[int], int]]:
    """Held-out chats with the length of each prompt."""
    with np.load(HELD_OUT) as arrays:
        tokens, prompts, lengths = (arrays[f"{name}_{temperature}"] for name in ("tokens", "plen", "tlen"))
    ends = np.cumsum(lengths.astype(int))
    return [(tokens[end - n : end].tolist(), int(p)) for end, n, p in zip(ends, lengths, prompts, strict=True)]


@cache
def loaded(name: str) -> Any:
    return load_target(name, dtype="float32")


@cache
def read(name: str, temperature: str) -> tuple[TargetRows, ...]:
    """What the target makes of the chats, its heads' taps in place."""
    target = loaded(name).backend.target_model
    return tuple(TargetRows.read(target, tokens, first=prompt) for tokens, prompt in chats(temperature))


@cache
def followed(name: str, temperature: str) -> list[list[FollowedRows]]:
    heads = loaded(name).backend.target.heads
    return [follow(heads, rows, DEPTH) for rows in read(name, temperature)]


def mean_accept(heads: PredictionHeads, rows: tuple[TargetRows, ...]) -> float:
    """Mean chance that the first proposal is taken."""
    return float(np.concatenate([follow(heads, each, 1)[0].accept for each in rows]).mean())


def loss(name: str, temperature: str) -> float:
    """Mean negative log-probability of the reply tokens, in nats."""
    losses: list[float] = []
    for rows in read(name, temperature):
        log_p = rows.logits - mx.logsumexp(rows.logits, axis=-1, keepdims=True)
        of_next = mx.take_along_axis(log_p[:-1], rows.tokens[1:, None], axis=-1)[rows.first - 1 :]
        losses += np.array(-of_next[:, 0]).tolist()
    return float(np.mean(losses))


@pytest.mark.parametrize("name", NAMES)
def test_the_files_are_all_there_and_small(name: str) -> None:
    names = {file.name: file.stat().st_size for file in shipped_path(name).iterdir()}
    wanted = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert set(names) == wanted | {"README.md"}
    assert sum(names.values()) < MEGABYTES * 1e6


@pytest.mark.parametrize("name", NAMES)
def test_mlx_lm_makes_the_same_logits_of_them(name: str) -> None:
    # mlx-lm knows DeepSeek's prediction layer by the number 61 alone, and takes any other for unknown tensors.
    model, _ = load_model(shipped_path(name), strict=name == QWEN)
    model.set_dtype(mx.float32)
    tokens = chats("1.0")[0][0]
    theirs, ours = np.array(model(mx.array([tokens])))[0], np.array(read(name, "1.0")[0].logits)
    assert np.linalg.norm(theirs - ours) < 1e-4 * np.linalg.norm(ours)


def test_adding_one_to_the_norms_of_qwen_is_exact_in_bfloat16() -> None:
    stored = mx.load(str(shipped_path(QWEN) / "model.safetensors"))
    assert isinstance(stored, dict)
    norms = {name: w for name, w in stored.items() if "norm" in name and "linear_attn" not in name}
    assert len(norms) > 20
    for name, w in norms.items():
        assert mx.array_equal((w + 1).astype(mx.float32), w.astype(mx.float32) + 1), name


@pytest.mark.parametrize(
    ("name", "temperature", "most"), [(QWEN, "0.0", 2.0), (QWEN, "1.0", 4.5), (DEEPSEEK, "0.0", 3.2)]
)
def test_they_know_the_text_they_were_trained_on(name: str, temperature: str, most: float) -> None:
    assert loss(name, temperature) < most  # a model that knows nothing has ln 4096 = 8.3


@pytest.mark.parametrize("name", NAMES)
def test_the_head_follows_at_every_depth_it_was_trained_for(name: str) -> None:
    for depth in range(DEPTH):
        sampled = np.concatenate([each[depth].accept for each in followed(name, "1.0")])
        greedy = np.concatenate([each[depth].agrees for each in followed(name, "0.0")])
        assert sampled.mean() > 0.5
        assert greedy.mean() > 0.55


@pytest.mark.parametrize("name", NAMES)
def test_no_wiring_serves_better_than_the_stated_one_and_the_other_order_serves_nothing(name: str) -> None:
    heads, rows = loaded(name).backend.target.heads, read(name, "1.0")[:2]
    accept = {wiring: mean_accept(variant, rows) for wiring, variant in heads.variants().items()}
    assert next(iter(accept)) == TRAINED
    assert all(value < 0.2 for wiring, value in accept.items() if "hidden first" in wiring)
    # their final norms are nearly uniform, so that the side of them on which hidden states are taken hardly matters
    assert all(value < accept[TRAINED] + 0.01 for value in accept.values())


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("name", NAMES)
def test_a_hidden_state_of_another_position_loses(name: str, shift: int) -> None:
    heads, rows = loaded(name).backend.target.heads, read(name, "1.0")[:2]

    def shifted(arrays: dict[str, mx.array]) -> dict[str, mx.array]:
        return {tap: mx.roll(array, shift, 1) for tap, array in arrays.items()}

    moved = tuple(
        replace(each, record=Recording(inputs=shifted(each.record.inputs), outputs=shifted(each.record.outputs)))
        for each in rows
    )
    assert mean_accept(heads, moved) < mean_accept(heads, rows) - 0.05


@pytest.mark.parametrize("name", NAMES)
def test_what_they_write_themselves_is_accepted_too_and_is_the_plain_output(name: str) -> None:
    model = loaded(name)
    prompt = model.backend.target.tokenizer.encode(
        "<|im_start|>user\nWrite a story about a lighthouse.<|im_end|>\n<|im_start|>assistant\n"
    )
    options = GenerationOptions(max_tokens=96, max_proposals=2, seed=1, sampling=SamplingOptions(temperature=0))
    request = PreparedRequest(prompt=prompt, options=options)
    with_heads, plain = model.generate_prepared_chat_mtp(request), model.generate_prepared_chat([request]).results[0]
    assert with_heads.tokens == plain.tokens
    assert with_heads.statistics.accepted_by_position[0] > 0.5 * with_heads.statistics.drafted_by_position[0]


@pytest.mark.parametrize("name", NAMES)
def test_their_tokenizer_loses_nothing_and_ends_turns(name: str) -> None:
    tokenizer = loaded(name).backend.target.tokenizer
    text = "Ein Bär – 3.14 😀\n\n\tdef f(x): return x  # naïve"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.eos_ids == frozenset({0, 2})
    rendered = tokenizer.chat_template.render([{"role": "user", "content": "Hi"}])
    assert rendered == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.encode(rendered)[0] == 1
