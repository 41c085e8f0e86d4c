"""Tiny pairs of target and assistant, and one way to decode with them that every test of this folder uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from eredu.contract.constraint import Constraint
from eredu.contract.options import GenerationOptions, SamplingOptions
from eredu.contract.randomness import RequestRandomness
from eredu.contract.request import GenerationRequest
from eredu.engine.checkpoint import LoadedCheckpoint, load_checkpoint
from eredu.engine.executor import MlxExecutor
from eredu.engine.mlx_backend import Assistant, MlxBackend
from eredu.loaded import LoadedModel
from eredu.mlx.placement import Placement, PlacementKind
from eredu.prepared import PreparedRequest
from eredu.results import BatchResult, GenerationResult
from eredu_conformance.harness.tiny_models import TinyDecoder

Pair = tuple[LoadedCheckpoint, Assistant]
Load = Callable[[TinyDecoder], LoadedCheckpoint]


@pytest.fixture(scope="session")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """A decoder written and loaded, once for each description."""
    loaded: dict[TinyDecoder, LoadedCheckpoint] = {}

    def cached(decoder: TinyDecoder) -> LoadedCheckpoint:
        if decoder not in loaded:
            directory: Path = decoder.write(tmp_path_factory.mktemp("decoder"))
            loaded[decoder] = load_checkpoint(directory, tokenizer=None)
        return loaded[decoder]

    return cached


@pytest.fixture(scope="session")
def llama(load: Load) -> Pair:
    """A llama of 40 ids, and a noisy copy that agrees with it more often than not."""
    target = TinyDecoder(vocabulary=40, layers=1, hidden=32, seed=9)
    return load(target), Assistant(load(target.noisy(0.08)))


@pytest.fixture(scope="session")
def qwen(load: Load) -> Pair:
    """A qwen3 of 67 ids, tied, and a noisy copy."""
    target = TinyDecoder(
        model_type="qwen3", vocabulary=67, layers=2, hidden=24, heads=3, kv_heads=3, tied=True, seed=17
    )
    return load(target), Assistant(load(target.noisy(0.12)))


@pytest.fixture(params=["llama", "qwen"])
def pair(request: pytest.FixtureRequest) -> Pair:
    found: Pair = request.getfixturevalue(request.param)
    return found


def options(*, temperature: float = 0.0, **changes: Any) -> GenerationOptions:
    sampling = {name: changes.pop(name) for name in list(changes) if name in SamplingOptions.__dataclass_fields__}
    base: dict[str, Any] = {"max_tokens": 64, "seed": 5, "max_proposals": 4, "eos_ids": frozenset()}
    return GenerationOptions(sampling=SamplingOptions(temperature=temperature, **sampling), **(base | changes))


@pytest.fixture(scope="session")
def make_options() -> Callable[..., GenerationOptions]:
    """Generation options with the sampling options among them by name."""
    return options


@pytest.fixture(scope="session")
def decode() -> Callable[..., GenerationResult]:
    """Decode one prompt with a pair: by its assistant unless `plain`."""

    def run(
        pair: Pair,
        *,
        plain: bool = False,
        prompt: tuple[int, ...] = (1, 2, 3, 4, 5),
        placement: Placement | None = None,
        constraint: Constraint | None = None,
        schedule: Any = None,
        sink: Any = None,
        trace: Any = None,
        **changes: Any,
    ) -> GenerationResult:
        model = LoadedModel(MlxBackend(pair[0], placement or Placement.choose()))
        request = PreparedRequest(prompt=prompt, options=options(**changes), constraint=constraint)
        if plain:
            batch: BatchResult = model.generate_prepared_chat([request], schedule=schedule, sink=sink, trace=trace)
            return batch.results[0]
        return model.generate_prepared_chat_mtp(request, pair[1], schedule=schedule, sink=sink, trace=trace)

    return run


@pytest.fixture(scope="session")
def lend() -> Callable[[Pair, bool], MlxExecutor]:
    """The executor that the backend lends, kept for a test to look into."""

    class Keep:
        def visit(self, executor: Any) -> Any:
            return executor

    def executor_of(pair: Pair, plain: bool) -> MlxExecutor:
        backend = MlxBackend(pair[0], Placement.choose())
        found: Any = backend.lend_plain(Keep()) if plain else backend.lend_speculative(pair[1], Keep())
        assert isinstance(found, MlxExecutor)
        return found

    return executor_of


@pytest.fixture(scope="session")
def make_request() -> Callable[..., GenerationRequest]:
    """A request for a scheduler of the test's own."""

    def make(
        index: int = 0,
        *,
        prompt: tuple[int, ...] = (1, 2, 3, 4, 5),
        constraint: Constraint | None = None,
        **changes: Any,
    ) -> GenerationRequest:
        chosen = options(**changes)
        randomness = RequestRandomness.from_seed(chosen.seed or 0)
        return GenerationRequest(index, prompt, chosen, randomness, constraint)

    return make


@pytest.fixture(scope="session")
def placements() -> dict[str, Placement]:
    """The three placements; on a machine with one device, two devices are one device taken twice."""
    device = mx.default_device()
    return {
        "one-stream": Placement(PlacementKind.ONE_STREAM, device, device),
        "two-streams": Placement(PlacementKind.TWO_STREAMS, device, device),
        "two-devices": Placement(PlacementKind.TWO_DEVICES, device, mx.Device(mx.cpu)),
    }
