"""Patches of mlx-lm: each is still needed, makes the model the published one, and changes nothing a second time."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.switch_layers import SwitchLinear

from eredu.contract.options import GenerationOptions, SamplingOptions
from eredu.engine.checkpoint import LoadedCheckpoint, load_checkpoint
from eredu.engine.mlx_backend import MlxBackend
from eredu.families.mlx_lm_patches import Patch, known_patches, patch_layers, patch_target
from eredu.families.recurrence import recurrences_of
from eredu.loaded import LoadedModel
from eredu.mlx.adapter import LanguageModel, load_directory
from eredu.mlx.caches.sequence import SequenceCache
from eredu.mlx.placement import Placement, on_cuda
from eredu.prepared import PreparedRequest
from eredu_conformance.goldens import PROMPT, ROWS, golden_named
from eredu_conformance.zoo import MEMBERS, zoo_member

TOKENS = [int(token) for token in np.random.default_rng(6).integers(0, 64, size=24)]
BLOCKS = {"latent rows": "deepseek-v3", "sparse rows": "deepseek-v3.2", "state space rows": "nemotron-h"}
"""Members whose blocks mlx-lm computes otherwise than their rows."""
EXPERTS = ["deepseek-v3", "nemotron-h", "qwen3.5-moe"]


def named(name: str) -> list[Patch]:
    return [patch for patch in known_patches() if patch.name == name]


def unpatched(name: str, directory: Path) -> LanguageModel:
    """A member's target as mlx-lm has it."""
    member = zoo_member(name)
    return load_directory(member.write(directory), apart=member.head.__contains__)[0]


def feed(model: LanguageModel, *parts: list[int]) -> mx.array:
    cache = SequenceCache(model, recurrences=recurrences_of(model))
    return mx.concatenate([cache.feed(model, mx.array(part, dtype=mx.uint32)) for part in parts])


def in_block_and_alone(model: LanguageModel) -> tuple[mx.array, mx.array]:
    return feed(model, TOKENS[:16], TOKENS[16:]), feed(model, TOKENS[:16], *([token] for token in TOKENS[16:]))


def test_every_patch_is_tried_here() -> None:
    of_modules = {"group routing", "wide experts", "whole experts", "gated delta rows"}
    of_models = {"index norm", "biased choice", "latent norms"}
    tried = of_modules | of_models
    assert {patch.name for patch in known_patches()} == tried | set(BLOCKS)
    assert all(patch.reason for patch in known_patches())


@pytest.mark.parametrize("name", [name for patch in named("group routing") for name in patch.classes])
def test_mlx_lm_still_takes_experts_of_groups_left_out(name: str) -> None:
    module, _, kind = name.partition(".")
    settings = SimpleNamespace(
        num_experts_per_tok=2, norm_topk_prob=True, n_routed_experts=8, num_experts=8, routed_scaling_factor=1.0,
        n_group=2, topk_group=1, hidden_size=4, topk_method="noaux_tc",
    )  # fmt: skip
    gate: Any = getattr(import_module(f"mlx_lm.models.{module}"), kind)(settings)
    gate.weight = mx.random.normal((8, 4), key=mx.random.key(1))
    gate.e_score_correction_bias = mx.array([-3.0, -2.5, -2.6, -2.8, -2.9, -2.4, -2.7, -3.1])
    rows = mx.random.normal((1, 64, 4), key=mx.random.key(2))

    scores = np.array(mx.sigmoid(rows[0] @ gate.weight.T) + gate.e_score_correction_bias).reshape(64, 2, 4)
    opened = np.sort(scores, axis=-1)[..., -2:].sum(-1).argmax(-1)

    def strays() -> int:
        """Rows with an expert of the closed group."""
        return int((np.array(gate(rows)[0][0]) // 4 != opened[:, None]).any(-1).sum())

    assert strays() > 0, "mlx-lm closes groups itself now: take the patch out"
    named("group routing")[0].change(gate)
    assert strays() == 0
    assert gate.e_score_correction_bias.min() > 0


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("deepseek-v3+negative-bias", 0.1), ("deepseek-v3.2+small-keys", 1e-4), ("ernie-4.5", 0.1), ("longcat", 1e-4)],
)
def test_mlx_lm_alone_is_another_model(name: str, wrong: float, tmp_path: Path) -> None:
    """Where biases push scores below 0, where the norm of the index keys feels its epsilon, where biases choose."""
    golden, model = golden_named(name).logits, unpatched(name, tmp_path)

    def error() -> float:
        return float(np.abs(np.array(feed(model, list(PROMPT)))[list(ROWS)] - golden).max())

    assert error() > wrong, "mlx-lm follows the published model now: take the patch out"
    patch_target(model)
    assert error() < 1e-3


@pytest.mark.parametrize("name", BLOCKS.values())
def test_mlx_lm_still_computes_blocks_otherwise_than_rows(name: str, tmp_path: Path) -> None:
    if mx.default_device().type != mx.DeviceType.cpu:
        pytest.skip("other devices' kernels depend on the number of rows anyway")
    model = unpatched(name, tmp_path)
    assert not mx.array_equal(*in_block_and_alone(model)), "mlx-lm computes blocks as rows now: take the patch out"
    patch_target(model)
    assert mx.array_equal(*in_block_and_alone(model))


@pytest.mark.parametrize("name", ["qwen3.5", "qwen3-next"])
def test_mlx_lm_still_forgets_the_states_within_a_block(name: str, tmp_path: Path) -> None:
    model = unpatched(name, tmp_path)
    block = mx.array(TOKENS[:5], dtype=mx.uint32)

    def noted() -> int:
        cache = SequenceCache(model, recurrences=recurrences_of(model))
        return len(cache.feed_recorded(model, block)[1].states)

    assert noted() == 0
    patch_target(model)
    assert noted() == len(recurrences_of(model)) > 0


def test_mlx_still_lacks_half_precision_for_chosen_experts() -> None:
    if mx.default_device().type != mx.DeviceType.cpu:
        pytest.skip("other devices have it")
    experts = SwitchLinear(4, 4, 2, bias=False)
    experts.weight = experts.weight.astype(mx.bfloat16)
    call: Callable[[], mx.array] = lambda: experts(mx.ones((1, 1, 4), dtype=mx.bfloat16), mx.array([[0]]))  # noqa: E731
    with pytest.raises(Exception, match="float32"):
        mx.eval(call())
    patch_layers(experts)
    assert call().dtype == mx.bfloat16


@pytest.mark.parametrize("name", EXPERTS)
def test_the_experts_of_a_loaded_model_lie_end_to_end(name: str, tmp_path: Path) -> None:
    if mx.default_device().type != mx.DeviceType.cpu:
        pytest.skip("NumPy sees the strides of the CPU's arrays alone")
    loaded = load_checkpoint(zoo_member(name).write(tmp_path), tokenizer=None)
    heads: Any = loaded.heads
    parts = [part for root in (loaded.model, *heads.modules) for _, part in cast(Any, root).named_modules()]
    experts = [part.weight for part in parts if isinstance(part, SwitchLinear)]
    assert experts
    assert all(np.from_dlpack(weight).flags.c_contiguous for weight in experts)


@pytest.mark.parametrize("packed", [False, True])
def test_mlx_still_reads_the_experts_of_a_view_as_if_they_lay_end_to_end(packed: bool) -> None:
    if mx.default_device().type == mx.DeviceType.cpu:
        pytest.skip("the CPU follows strides")
    if packed and on_cuda():
        pytest.skip("on CUDA, MLX has no such product of packed experts in float32")
    part: Any = SwitchLinear(64, 128, 8, bias=False)
    part = part.to_quantized(32, 4) if packed else part
    for name in ("weight", "scales", "biases"):
        if name in part:
            part[name] = part[name][:, :64]
    rows, chosen = mx.random.normal((96, 1, 64)), mx.array(np.sort(np.arange(96) % 8).astype(np.uint32))
    due = part(rows, chosen)
    if not packed:  # packed experts were reported wrong on Metal alone
        assert not mx.allclose(part(rows, chosen, sorted_indices=True), due, atol=1e-2), "patch no more"
    patch_layers(part)
    assert mx.allclose(part(rows, chosen, sorted_indices=True), due, atol=1e-2)


@pytest.mark.parametrize("name", MEMBERS)
def test_patching_twice_patches_once(name: str, tmp_path: Path) -> None:
    model = load_checkpoint(zoo_member(name).write(tmp_path), tokenizer=None, with_heads=False, dtype="bfloat16").model
    logits = feed(model, TOKENS)
    before = [type(part) for _, part in cast(Any, model).named_modules()]
    patch_target(model)
    assert [type(part) for _, part in cast(Any, model).named_modules()] == before
    assert mx.array_equal(feed(model, TOKENS), logits)


# ---- mixtures of experts in half precision -----------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPERTS)
def test_half_precision_is_float32_rounded(name: str, tmp_path: Path) -> None:
    directory = zoo_member(name).write(tmp_path)
    half, single = (load_checkpoint(directory, tokenizer=None, dtype=dtype) for dtype in ("bfloat16", "float32"))
    ours, theirs = feed(half.model, TOKENS), np.array(feed(single.model, TOKENS))
    assert ours.dtype == mx.bfloat16, "activations must stay what they were"
    assert np.median(np.abs(np.array(ours.astype(mx.float32)) - theirs)) < 0.25, "the scale of the logits is 2"


# rule: verify.greedy-argmax, rollback.exact-state
@pytest.mark.parametrize("name", EXPERTS)
def test_half_precision_decodes_the_plain_tokens(name: str, tmp_path: Path) -> None:
    if mx.default_device().type != mx.DeviceType.cpu:
        pytest.skip("rows of other devices depend in half precision on how many come along, and ties are close here")
    loaded: LoadedCheckpoint = load_checkpoint(zoo_member(name).write(tmp_path), tokenizer=None, dtype="bfloat16")
    model = LoadedModel(MlxBackend(loaded, Placement.choose()))
    options = GenerationOptions(
        sampling=SamplingOptions(temperature=0.0), max_tokens=24, max_proposals=1, eos_ids=frozenset()
    )
    request = PreparedRequest(prompt=tuple(TOKENS), options=options)
    plain = model.generate_prepared_chat([request]).results[0]
    assert model.generate_prepared_chat_mtp(request, None).tokens == plain.tokens
