"""Host synchronisations and array traffic: one a round for plain and greedy speculative decoding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest

import eredu.drafters.assistant as assistant_module
import eredu.engine.executor as executor_module
import eredu.engine.verification as verification_module
from eredu.contract.options import MtpSchedulerOptions
from eredu.results import GenerationResult

Decode = Callable[..., GenerationResult]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Calls that may wait for the device. `item` and `tolist` count where their array was not evaluated before."""
    counted: Counter[str] = Counter()
    done: set[int] = set()
    kept: list[Any] = []
    evaluate = mx.eval

    def spy_eval(*arrays: Any) -> None:
        counted["eval"] += bool(arrays)
        done.update(id(array) for array in arrays)
        kept.extend(arrays)
        evaluate(*arrays)

    monkeypatch.setattr(mx, "eval", spy_eval)
    monkeypatch.setattr(mx, "synchronize", lambda *_: counted.update(["synchronize"]))

    def spy(name: str) -> None:
        original = getattr(mx.array, name)

        def read(self: mx.array) -> Any:
            counted["late read"] += id(self) not in done
            return original(self)

        monkeypatch.setattr(mx.array, name, read)

    spy("item")
    spy("tolist")
    return counted


# rule: placement.wait-before-read
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_plain_decoding_waits_once_a_token(llama: Any, decode: Decode, calls: Counter[str], temperature: float) -> None:
    result = decode(llama, plain=True, temperature=temperature, prompt=(5,), max_tokens=30)
    assert result.statistics.rounds == 30
    assert calls == {"eval": 30, "late read": 0}


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.0},
        {"temperature": 0.8, "acceptance": "coupled"},
        {"temperature": 0.8, "acceptance": "rejection"},
        {"temperature": 0.8, "acceptance": "block"},
        {"temperature": 0.8, "frequency_penalty": 0.2, "repetition_penalty": 1.1},
    ],
    ids=["greedy", "coupled", "rejection", "block", "penalties"],
)
def test_speculative_decoding_waits_once_a_round(
    llama: Any, decode: Decode, calls: Counter[str], settings: dict[str, Any]
) -> None:
    schedule = MtpSchedulerOptions(lookahead=False)
    result = decode(llama, prompt=(5,), max_tokens=40, schedule=schedule, **settings)
    assert result.statistics.rounds > 5
    closing = 1  # of the latest proposal, which a close waits for
    assert calls["eval"] <= result.statistics.rounds + closing
    assert calls["late read"] == 0


def test_lookahead_reads_the_guess_besides(llama: Any, decode: Decode, calls: Counter[str]) -> None:
    result = decode(llama, prompt=(5,), max_tokens=40, schedule=MtpSchedulerOptions(adaptive_lookahead=False))
    statistics = result.statistics
    assert calls["eval"] <= statistics.rounds + 1
    assert calls["late read"] == statistics.bonus_matches + statistics.bonus_mismatches


def test_nothing_of_the_output_is_copied_again_each_round(llama: Any, decode: Decode, monkeypatch: Any) -> None:
    """Host lists become arrays of a few ids: the cost of a round does not grow with the text."""
    sizes: list[int] = []
    original = mx.array

    class Spy:
        def __call__(self, values: Any, *args: Any, **options: Any) -> Any:
            if isinstance(values, list):
                sizes.append(len(values))
            return original(values, *args, **options)

        def __getattr__(self, name: str) -> Any:
            return getattr(original, name)

    class Module:
        array = Spy()

        def __getattr__(self, name: str) -> Any:
            return getattr(mx, name)

    for module in (assistant_module, executor_module, verification_module):
        monkeypatch.setattr(module, "mx", Module())
    decode(llama, prompt=(5,), max_tokens=120, temperature=0.8)
    assert sizes
    assert max(sizes) <= 8
