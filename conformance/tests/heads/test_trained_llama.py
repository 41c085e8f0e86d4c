"""The head that was trained for SmolLM2, where it is at hand: its acceptance by depth, and every wrong wiring.

It does not ship. `EREDU_SMOLLM2_HEAD` names its directory (`eredu.families.llama.heads` says what is in it), and
SmolLM2 itself must have been fetched.
"""

from __future__ import annotations

import os

import pytest

from eredu.checkpoints.names import target_path
from eredu.checkpoints.wiring import Wiring
from eredu.contract.options import GenerationOptions, SamplingOptions
from eredu.engine.load import load_target
from eredu.engine.probe import HeadProbe, probe_heads
from eredu.loaded import LoadedModel
from eredu.prepared import PreparedRequest

HEAD = os.environ.get("EREDU_SMOLLM2_HEAD")
pytestmark = [
    pytest.mark.skipif(HEAD is None, reason="EREDU_SMOLLM2_HEAD names no head for SmolLM2"),
    pytest.mark.skipif(not target_path().is_file(), reason="SmolLM2 was not fetched"),
]


@pytest.fixture(scope="module")
def model() -> LoadedModel:  # type: ignore[type-arg]
    return load_target("smollm2", head=HEAD, dtype="float32")


@pytest.fixture(scope="module")
def found(model: LoadedModel) -> HeadProbe:  # type: ignore[type-arg]
    target = model.backend.target
    return probe_heads(target.heads, model.backend.target_model, target.tokenizer)


def test_acceptance_by_depth(found: HeadProbe) -> None:
    """Held-out chats give .492, .469, .459, .451 at temperature 1; one short text is off by a few hundredths."""
    assert found.depths[:4] == pytest.approx((0.492, 0.469, 0.459, 0.451), abs=0.06)
    assert list(found.depths) == sorted(found.depths, reverse=True)
    assert found.chosen == found.stated == str(Wiring())


def test_every_wrong_wiring_falls_short(found: HeadProbe) -> None:
    right = found.wirings[str(Wiring())]
    assert found.wirings[str(Wiring(chain_after_norm=True))][1] < right[1] - 0.02
    for name, accept in found.wirings.items():
        if name.startswith("hidden after norm, embedding first"):
            assert accept[0] < right[0] - 0.05
        elif "hidden first" in name:
            assert accept[0] < 0.1


def test_greedy_tokens_are_the_plain_ones(model: LoadedModel) -> None:  # type: ignore[type-arg]
    prompt = model.backend.target.tokenizer.apply_chat([{"role": "user", "content": "Name three colours."}])
    options = GenerationOptions(max_tokens=24, sampling=SamplingOptions(temperature=0.0))
    request = PreparedRequest(prompt=prompt, options=options)
    drafted = model.generate_prepared_chat_mtp(request)
    assert drafted.tokens == model.generate_prepared_chat([request]).results[0].tokens
    assert drafted.statistics.accepted > 0
