"""Draft rows by teacher forcing are the rows that proposals were really drawn from, for heads and for assistants."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from eredu.checkpoints.opening import load_tokenizer
from eredu.contract.options import GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.drafters import assistant, heads
from eredu.drafters.proposal import propose
from eredu.engine.checkpoint import load_checkpoint
from eredu.engine.load import load_target
from eredu.engine.mlx_backend import Assistant, MlxBackend
from eredu.loaded import LoadedModel
from eredu.mlx.placement import Placement
from eredu_conformance.harness.tiny_models import TinyDecoder
from eredu_conformance.zoo import zoo_member
from eredu_validation.evidence import Emission, columns_of
from eredu_validation.measures.emissions import columns_of_outputs, decode_batch, emissions_of, request_seed
from eredu_validation.measures.plain_rows import Text, normalised, read_target
from eredu_validation.measures.prompt_states import PromptStates
from eredu_validation.measures.subject import Subject

Recorded = dict[tuple[int, int, int], Any]
PROMPT = (1, 2, 3, 4, 5, 6, 7)
SETTINGS = {
    "plain": SamplingOptions(temperature=1.0),
    "filtered": SamplingOptions(temperature=0.8, top_k=20, top_p=0.9, min_p=0.01),
    "penalised": SamplingOptions(temperature=1.2, repetition_penalty=1.3, frequency_penalty=0.2, presence_penalty=0.1),
}


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """The row of each proposal by request, the output position where its round starts, and its number."""
    rows: Recorded = {}

    def record(history: Any, block: Any, logits: Any) -> None:
        start, index = block.next_address
        propose(history, block, logits)
        rows[history.request.index, start, index] = normalised(block.scores[-1])[0]

    for module in (assistant, heads):
        monkeypatch.setattr(module, "propose", record)
    return rows


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """Recurrent layers, and one head that is iterated."""
    path = zoo_member("qwen3.5").write(tmp_path_factory.mktemp("embedded"))
    model = load_target(path, tokenizer=load_tokenizer(path), settle=False)
    heads = model.backend.target.heads
    assert heads is not None
    iterated = replace(model.backend.target, heads=heads.capped(3))
    return subject_of(replace(model, backend=replace(model.backend, target=iterated)), None)


@pytest.fixture(scope="session")
def separate(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """A llama and a noisy copy of it."""
    decoder = TinyDecoder(vocabulary=40, layers=1, hidden=32, seed=9)
    paths: list[Path] = [made.write(tmp_path_factory.mktemp("decoder")) for made in (decoder, decoder.noisy(0.08))]
    target, draft = (load_checkpoint(path, tokenizer=None) for path in paths)
    return subject_of(LoadedModel(MlxBackend(target, Placement.choose())), Assistant(draft))


def drawn(subject: Subject, prompts: Sequence[Sequence[int]], *, first: int = 0, **options: Any) -> list[Emission]:
    """All tokens of a batch, request by request."""
    outputs = decode_batch(subject, prompts, first=first, **options)
    return [emission for output in outputs for emission in emissions_of(subject, output)]


def subject_of(model: Any, assistant: Any) -> Subject:
    options = GenerationOptions(max_tokens=40, max_proposals=3, eos_ids=frozenset(), sampling=SETTINGS["plain"])
    return Subject(model=model, assistant=assistant, options=options, schedule=MtpSchedulerOptions())


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", ["embedded", "separate"])
def test_draft_rows_are_those_that_were_drawn_from(
    request: pytest.FixtureRequest, recorded: Recorded, kind: str, settings: str
) -> None:
    subject: Subject = request.getfixturevalue(kind).with_options(sampling=SETTINGS[settings])
    seeds = [request_seed(3, 0, number) for number in range(2)]
    emissions, compared = drawn(subject, [PROMPT, PROMPT[:3]], seeds=seeds), 0
    for emission in emissions:
        stratum = emission.stratum
        row = recorded.get((emission.request, emission.position - stratum.offset, stratum.offset))
        if stratum.offset < stratum.proposals and row is not None:
            assert emission.draft is not None
            np.testing.assert_allclose(emission.draft, row, atol=1e-5)
            assert emission.draft.sum() == pytest.approx(1, abs=1e-9)
            compared += 1
    assert compared >= 30
    assert {emission.stratum.offset for emission in emissions} >= {0, 1}


@pytest.mark.parametrize("settings", ["filtered", "penalised"])
def test_unmasked_rows_leave_filters_and_penalties_out(separate: Subject, settings: str) -> None:
    sampling = SETTINGS[settings]
    bare = SamplingOptions(temperature=sampling.temperature)
    seeds = [request_seed(3, 0, 0)]
    with_filters = drawn(separate.with_options(sampling=sampling), [PROMPT], seeds=seeds)
    tokens = [emission.token for emission in with_filters]
    assert len(tokens) == 40
    for emission in with_filters:
        assert emission.unmasked is not None
        assert not np.allclose(emission.unmasked, emission.target)
    bare_emissions = drawn(separate.with_options(sampling=bare), [PROMPT], seeds=seeds)
    assert bare_emissions[0].unmasked is None
    first = with_filters[0].unmasked
    assert first is not None
    np.testing.assert_allclose(bare_emissions[0].target, first, atol=1e-6)


def test_requests_of_a_run_share_no_seed() -> None:
    seeds: list[int] = [request_seed(seed, part, n) for seed in (0, 1) for part in (0, 1) for n in range(50)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_blocks_are_read_off_the_trace(separate: Subject) -> None:
    """Promoted blocks and dropped proposals are strata of their own, and all are known before the draw."""
    told: list[int] = []
    prompts = [PROMPT] * 6
    seeds = [request_seed(5, 0, number) for number in range(6)]
    emissions = drawn(separate, prompts, first=10, seeds=seeds, on_tokens=told.append)
    assert sum(told) == 240
    names = {emission.stratum.name for emission in emissions}
    assert any("promoted" in name for name in names)
    assert any("redrafted" in name for name in names)
    assert [emission.request for emission in emissions[:1]] == [10]
    assert len(emissions) == 240


@pytest.mark.parametrize("settings", ["plain", "filtered"])
def test_columns_of_outputs_one_by_one_are_those_of_all_together(separate: Subject, settings: str) -> None:
    subject = separate.with_options(sampling=SETTINGS[settings])
    outputs = decode_batch(subject, [PROMPT, PROMPT[:3]], first=4, seeds=[1, 2])
    found = columns_of_outputs(subject, outputs)
    wanted = columns_of([emission for output in outputs for emission in emissions_of(subject, output)])
    assert (found.names, found.width, len(found)) == (wanted.names, wanted.width, 80)
    assert (found.unmasked is found.target) == (wanted.unmasked is wanted.target) == (settings == "plain")
    for field in dataclasses.fields(found):
        if field.name not in ("names", "width"):
            np.testing.assert_array_equal(getattr(found, field.name), getattr(wanted, field.name), err_msg=field.name)


@pytest.mark.parametrize("kind", ["embedded", "separate"])
def test_a_kept_prompt_is_read_once_and_never_changed(request: pytest.FixtureRequest, kind: str) -> None:
    """Whatever was forced behind it before: rows and hidden states are those of a text that is read in one piece."""
    subject: Subject = request.getfixturevalue(kind)
    texts = [Text(PROMPT, output) for output in ((9, 8, 7, 6), (3, 3, 3), (9, 8, 7, 6))]
    kept = PromptStates()
    for text in texts:
        alone = read_target(subject.target, text, subject.heads)
        again = read_target(subject.target, text, subject.heads, prompts=kept)
        assert mx.array_equal(again.logits, alone.logits)
        if alone.hidden is not None and again.hidden is not None:
            assert mx.array_equal(again.hidden, alone.hidden)
            assert again.hidden.shape[0] == len(text.tokens) - 1
    state = kept.of(subject.target, PROMPT, subject.heads)
    assert state is kept.of(subject.target, PROMPT, subject.heads)
    assert state.cache.length == len(PROMPT) - 1
    assert kept.room == PromptStates().room - len(PROMPT)


def test_prompts_beyond_the_room_are_read_again(separate: Subject) -> None:
    kept = PromptStates(room=3)
    assert kept.of(separate.target, PROMPT) is not kept.of(separate.target, PROMPT)
    assert kept.room == 3
