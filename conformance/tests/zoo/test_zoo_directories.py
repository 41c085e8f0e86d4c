"""The zoo's directories: the same bytes each time, lively under greedy decoding, and the same law in every layout."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model
from safetensors import SafetensorError
from safetensors.numpy import load_file

from eredu.checkpoints.opening import open_checkpoint
from eredu_conformance.zoo import (
    CONVERSIONS,
    MEMBERS,
    Affine,
    Conversion,
    Damage,
    HeadPlace,
    Parts,
    deepseek_v3,
    nemotron_h,
    write_converted,
    write_damaged,
    write_head,
    zoo_edges,
    zoo_member,
)
from eredu_conformance.zoo.writing import write_directory

PROMPT = (5, 17, 33, 2, 60, 8)
FAMILIES = tuple(name for name in MEMBERS if zoo_member(name).head)


def _body(name: str, directory: Path) -> Any:
    """mlx-lm's model of a member's target; its own loader refuses some published heads."""
    member = zoo_member(name)
    return load_model(write_directory(directory / name, dict(member.config), member.body))[0]


def _logits(model: Any, tokens: tuple[int, ...] = PROMPT) -> np.ndarray[Any, Any]:
    return np.array(model(mx.array([tokens]), cache=make_prompt_cache(model))[0])


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_is_written_in_the_same_bytes_each_time(name: str, tmp_path: Path) -> None:
    def digests(directory: Path) -> dict[str, str]:
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in directory.iterdir()}

    member = zoo_member(name)
    first, second = digests(member.write(tmp_path / "a")), digests(member.write(tmp_path / "b"))
    assert first == second
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} == set(first)
    assert sum(file.stat().st_size for file in (tmp_path / "a").iterdir()) < 1_700_000


@pytest.mark.parametrize("name", MEMBERS)
def test_greedy_decoding_wanders(name: str, tmp_path: Path) -> None:
    model = _body(name, tmp_path)
    cache, fed, out = make_prompt_cache(model), list(PROMPT), []
    for _ in range(120):
        out.append(int(mx.argmax(model(mx.array([fed]), cache=cache)[0, -1])))
        fed = out[-1:]
    assert len(set(out)) >= 25
    assert all(out[-3 * period : -2 * period] != out[-period:] for period in range(1, 40)), "the output repeats itself"


@pytest.mark.parametrize("name", MEMBERS)
def test_shards_hold_what_one_file_holds(name: str, tmp_path: Path) -> None:
    member = zoo_member(name)
    for parts in (Parts.SHARDED, Parts.HEAD_APART):
        directory = member.write(tmp_path / parts, parts=parts)
        index = json.loads((directory / "model.safetensors.index.json").read_text(encoding="utf-8"))
        files = {file: load_file(directory / file) for file in set(index["weight_map"].values())}
        assert len(files) > 1 or (parts is Parts.HEAD_APART and not member.head)
        for key, array in member.tensors.items():
            np.testing.assert_array_equal(files[index["weight_map"][key]][key], array)


@pytest.mark.parametrize("name", MEMBERS)
def test_a_plain_conversion_has_the_original_law(name: str, tmp_path: Path) -> None:
    directory = write_converted(zoo_member(name), tmp_path / "mlx", Conversion(head=HeadPlace.DROPPED))
    np.testing.assert_array_equal(_logits(load_model(directory)[0]), _logits(_body(name, tmp_path)))


@pytest.mark.parametrize("kind", ["4-bit", "8-bit", "mixed"])
@pytest.mark.parametrize("name", MEMBERS)
def test_a_quantised_conversion_is_its_dequantised_weights(name: str, kind: str, tmp_path: Path) -> None:
    recipe = CONVERSIONS[kind]
    conversion = Conversion(default=recipe.default, others=recipe.others, head=HeadPlace.DROPPED)
    directory = write_converted(zoo_member(name), tmp_path / "mlx", conversion)
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    del config["quantization_config"]
    dense = _dequantised(load_file(directory / "model.safetensors"), config.pop("quantization"))
    twin = write_directory(tmp_path / "twin", config, dense, layout="mlx")
    np.testing.assert_allclose(_logits(load_model(directory)[0]), _logits(load_model(twin)[0]), rtol=1e-4, atol=1e-4)


def _dequantised(arrays: dict[str, Any], quantisation: dict[str, Any]) -> dict[str, Any]:
    paths = [name.removesuffix(".scales") for name in arrays if name.endswith(".scales")]
    assert len(paths) > 5
    dense = {name: array for name, array in arrays.items() if not name.endswith((".scales", ".biases"))}
    for path in paths:
        setting = quantisation.get(path, quantisation)
        words, scales, biases = (mx.array(arrays[f"{path}.{part}"]) for part in ("weight", "scales", "biases"))
        weight = mx.dequantize(words, scales, biases, group_size=setting["group_size"], bits=setting["bits"])
        dense[f"{path}.weight"] = np.array(weight)
    return dense


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_quantisation_is_what_mlx_reads(bits: int) -> None:
    weight = np.asarray(np.random.default_rng(0).standard_normal((3, 5, 64)), dtype=np.float32)
    setting = Affine(bits)
    words, scales, biases = setting.quantise(weight)
    read = np.array(
        mx.dequantize(mx.array(words), mx.array(scales), mx.array(biases), group_size=setting.group, bits=bits)
    )
    half = np.repeat(scales, setting.group, axis=-1) / 2
    assert (np.abs(read - weight) <= half * 1.001).all()


def test_a_head_apart_is_a_directory_of_its_own(tmp_path: Path) -> None:
    member = zoo_member("qwen3.5")
    converted = load_file(write_head(member, tmp_path / "mlx") / "model.safetensors")
    assert {"fc.weight", "norm.weight", "layers.0.self_attn.q_proj.weight"} <= set(converted)
    np.testing.assert_array_equal(converted["norm.weight"], member.head["mtp.norm.weight"] + np.float32(1))
    published = load_file(write_head(member, tmp_path / "pt", layout="pt") / "model.safetensors")
    assert set(published) == set(member.head)
    quantised = load_file(write_head(member, tmp_path / "q", quantisation=Affine(4)) / "model.safetensors")
    assert "layers.0.self_attn.q_proj.scales" in quantised
    assert "fc.scales" not in quantised


@pytest.mark.parametrize("heads", [1, 2])
def test_more_heads_can_be_asked_for(heads: int) -> None:
    assert sum(name.endswith("eh_proj.weight") for name in deepseek_v3(heads).head) == heads
    assert sum(name.endswith("eh_proj.weight") for name in nemotron_h(heads).head) == heads


@pytest.mark.parametrize("damage", Damage)
@pytest.mark.parametrize("name", FAMILIES)
def test_damage_is_done(name: str, damage: Damage, tmp_path: Path) -> None:
    member = zoo_member(name)
    directory = write_damaged(member, tmp_path / "it", damage)
    if damage.startswith("head"):
        tensors = load_file(directory / "model.safetensors")
        assert any(key not in tensors or not np.array_equal(tensors[key], array) for key, array in member.head.items())
        for key, array in member.body.items():
            np.testing.assert_array_equal(tensors[key], array)
    elif damage is Damage.TRUNCATED:
        with pytest.raises(SafetensorError, match="ncomplete"):
            load_file(directory / "model.safetensors")
    else:
        places = json.loads((directory / "model.safetensors.index.json").read_text(encoding="utf-8"))["weight_map"]
        inside = [(directory / file).is_file() and ".." not in file for file in set(places.values())]
        assert not all(inside)


def test_a_family_without_a_head_has_none_to_damage(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no head"):
        write_damaged(zoo_member("llama"), tmp_path, Damage.HEAD_ZERO)
    with pytest.raises(KeyError, match="deepseek-v3"):
        zoo_member("unheard-of")


@pytest.mark.parametrize("name", [*MEMBERS, *zoo_edges()])
def test_inspection_reads_every_member(name: str, tmp_path: Path) -> None:
    """Caches that roll back, and heads that are ready where the family has them, by the headers alone."""
    member = zoo_member(name)
    report = open_checkpoint(member.write(tmp_path / "it", parts=Parts.SHARDED)).report()
    assert report.rolls_back_exactly
    assert report.heads.claimed == member.heads
    assert report.heads.capability.is_ready == bool(member.heads)
    assert report.heads.tensors == len(member.head)
