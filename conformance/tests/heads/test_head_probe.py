"""The probe on a head that was really trained: right wiring, wrong wirings, norms misread, and what is remembered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from eredu.checkpoints.names import resolve_checkpoint
from eredu.checkpoints.wiring import AFTER_NORMS, Wiring
from eredu.contract.errors import CapabilityError, CheckpointError
from eredu.engine import probe
from eredu.engine.alignment import TargetRows, follow
from eredu.engine.load import load_target
from eredu.engine.mlx_backend import MlxBackend
from eredu.engine.probe import HeadProbe, probe_heads, probe_path, probe_text, settle_heads
from eredu.families.prediction_heads import PredictionHeads
from eredu.mlx.caches.sequence import SequenceCache
from eredu_conformance.zoo import zoo_member

TRAINED = Wiring()
"""How the head of tiny-qwen3.5 was trained: hidden states before their norms, the embedding first."""
SHORT = " ".join(probe.ANSWER.split(" ")[:70])


@pytest.fixture(scope="module")
def backend() -> MlxBackend:
    return load_target("tiny-qwen3.5", dtype="float32", settle=False).backend


@pytest.fixture(scope="module")
def heads(backend: MlxBackend) -> PredictionHeads:
    """The trained head as a checkpoint that states nothing has it: wired as the family is."""
    found = backend.target.heads
    assert isinstance(found, PredictionHeads)
    assert found.wiring == TRAINED
    return replace(found, wiring=AFTER_NORMS, traits=replace(found.traits, settled=False, max_proposals=1))


@pytest.fixture(scope="module", autouse=True)
def small_probe() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "ANSWER", SHORT)
        patch.setattr(probe, "DEPTHS", 3)
        yield


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EREDU_CACHE", str(tmp_path / "cache"))


def run(heads: PredictionHeads, backend: MlxBackend) -> HeadProbe:
    tokenizer = backend.target.tokenizer
    assert tokenizer is not None
    return probe_heads(heads, backend.target_model, tokenizer)


@pytest.fixture(scope="module")
def found(backend: MlxBackend, heads: PredictionHeads) -> HeadProbe:
    return run(heads, backend)


def test_every_wrong_wiring_follows_worse(found: HeadProbe) -> None:
    right = found.wirings[str(TRAINED)]
    assert right[0] > 0.55, "the head was trained"
    assert found.wirings[str(replace(TRAINED, hidden_after_norm=True))][0] < right[0]
    assert found.wirings[str(replace(TRAINED, chain_after_norm=True))][1] < right[1]
    assert all(found.wirings[name][0] < 0.1 for name in found.wirings if "hidden first" in name)
    assert found.rows >= probe.LEAST_ROWS
    assert found.depths[0] > found.depths[2] > 0.5 * found.depths[0]
    assert found.usable == 3
    assert HeadProbe.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_another_wiring_must_be_clearly_better(backend: MlxBackend, heads: PredictionHeads) -> None:
    """From a default that is far off, the probe finds the trained one or its twin that chains likewise."""
    found = run(replace(heads, wiring=Wiring(hidden_first=True)), backend)
    assert "embedding first" in found.chosen
    applied = found.apply(heads)
    assert isinstance(applied, PredictionHeads)
    assert (str(applied.wiring), applied.traits.max_proposals) == (found.chosen, found.usable)


@pytest.mark.parametrize(
    ("offset", "said"), [(1.0, "shifted once less"), pytest.param(-1.0, "shifted once more", marks=pytest.mark.nightly)]
)
def test_norms_shifted_twice_or_never_are_refused(
    backend: MlxBackend, tmp_path: Path, offset: float, said: str
) -> None:
    """Files whose facts are in order, and whose norms were moved before they were written."""
    source = resolve_checkpoint("tiny-qwen3.5")
    tensors: dict[str, mx.array] = mx.load(str(source / "model.safetensors"))  # type: ignore[assignment]
    moved = {
        name: array + offset if array.ndim == 1 else array for name, array in tensors.items() if name.startswith("mtp.")
    }
    directory = tmp_path / "head"
    directory.mkdir()
    mx.save_safetensors(str(directory / "model.safetensors"), moved, metadata={"format": "pt"})
    config = json.loads((source / "config.json").read_text())
    config.pop("wiring")
    (directory / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=f"{said}: its norms were shifted twice, or never"):
        load_target("tiny-qwen3.5", dtype="float32", head=directory)
    assert load_target("tiny-qwen3.5", dtype="float32", head=directory, settle=False).mtp_capability().is_ready


def test_a_probe_is_remembered(
    backend: MlxBackend, heads: PredictionHeads, found: HeadProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsettled, target = replace(backend.target, heads=heads), backend.target_model
    tokenizer = backend.target.tokenizer
    assert tokenizer is not None
    asked: list[int] = []

    def count(*_: Any) -> HeadProbe:
        asked.append(1)
        return found

    monkeypatch.setattr(probe, "probe_heads", count)
    first = settle_heads(unsettled, target)
    path = probe_path(heads, target, tokenizer)
    assert path.is_file()
    assert path.name.startswith(tokenizer.fingerprint.digest[:16])
    again = settle_heads(unsettled, target)
    assert isinstance(first, PredictionHeads)
    assert isinstance(again, PredictionHeads)
    assert (first.wiring, first.traits) == (again.wiring, again.traits)
    assert asked == [1]
    path.write_text("{}")
    settle_heads(unsettled, target)
    assert asked == [1, 1]
    assert json.loads(path.read_text())["version"] == probe.VERSION
    other = next(iter(heads.misreadings().values()))
    assert probe_path(other, target, tokenizer) != path


def test_a_stated_wiring_is_run_unprobed(backend: MlxBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "probe_heads", lambda *_: pytest.fail("probed"))
    assert settle_heads(backend.target, backend.target_model) is backend.target.heads
    blind = replace(backend.target, tokenizer=None)
    assert settle_heads(blind, backend.target_model) is blind.heads


def test_a_folder_that_cannot_be_written_costs_the_memory_alone(
    backend: MlxBackend, heads: PredictionHeads, found: HeadProbe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(probe, "probe_heads", lambda *_: found)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EREDU_CACHE", str(tmp_path / "file"))
    settled = settle_heads(replace(backend.target, heads=heads), backend.target_model)
    assert settled is not None
    assert settled.traits.max_proposals == 3


def test_no_text_no_probe(backend: MlxBackend, heads: PredictionHeads) -> None:
    tokenizer = backend.target.tokenizer
    assert tokenizer is not None
    assert probe_text(tokenizer, 20) is None
    narrow = replace(backend.target_model, context=20)
    assert settle_heads(replace(backend.target, heads=heads), narrow) is heads
    with pytest.raises(CapabilityError, match="no text to probe"):
        probe_heads(heads, narrow, tokenizer)


def test_random_heads_keep_their_family_s_wiring_and_are_not_refused(tmp_path: Path) -> None:
    """Flat distributions overlap with everything; that is no sign of files misread."""
    loaded = load_target(zoo_member("qwen3.5").write(tmp_path), settle=False).backend
    tokenizer, heads = loaded.target.tokenizer, loaded.target.heads
    assert tokenizer is not None
    assert isinstance(heads, PredictionHeads)
    found = probe_heads(heads, loaded.target_model, tokenizer)
    assert found.misreadings["norms shifted once less"] > found.depths[0] + 0.05
    assert found.stated is None


def test_rows_at_every_depth_are_those_of_drafting_from_each_start(backend: MlxBackend, heads: PredictionHeads) -> None:
    """Teacher forcing against the very steps of drafting: one start after another, true rows and then guesses."""
    text = probe_text(backend.target.tokenizer, 4096)  # type: ignore[arg-type]
    assert text is not None
    tokens, depth = text[0][:14], 4
    rows = TargetRows.read(backend.target_model, tokens)
    hidden = heads.hidden(rows.record)
    followed = follow(heads, rows, depth)
    for start in (1, 5, 8):
        (cache,) = heads.new_caches()
        outputs = heads.step(0, hidden[: start + 1], rows.tokens[1 : start + 2], cache)
        for index in range(depth):
            q = mx.softmax(heads.logits(0, outputs[-1:])[0])
            p = rows.law(1.0)[start + 1 + index]
            expected = mx.minimum(p, q).sum().item()
            at = start + 2 + index - max(1, 2 + index)
            assert followed[index].accept[at] == pytest.approx(expected, abs=1e-5)
            if index + 1 < depth:
                outputs = heads.step(0, outputs[-1:], rows.tokens[start + 2 + index][None], cache)


def test_a_target_is_read_as_it_decodes(backend: MlxBackend) -> None:
    tokens = [5, 6, 7, 8]
    read = TargetRows.read(backend.target_model, tokens)
    cache = SequenceCache(backend.target.model, recurrences=backend.target.recurrences)
    alone = [cache.feed(backend.target.model, mx.array([token], dtype=mx.uint32)) for token in tokens]
    assert mx.allclose(read.logits, mx.concatenate(alone), atol=1e-4)
