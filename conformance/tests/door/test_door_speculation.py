"""Who proposes: "auto" takes what is ready and says so; a `Speculation` is done or refused, never decoded plainly."""

from __future__ import annotations

from dataclasses import replace

import pytest

import eredu
from eredu.contract.capability import MtpCapability, MtpCheckpointKind
from eredu.contract.errors import CapabilityError
from eredu.engine.load import load_assistant
from eredu.engine.mlx_backend import MlxBackend
from eredu.loaded import LoadedModel
from eredu_conformance.crafted import PairDirectories

PROMPT = "adb"
LENGTH = 24


def tokens(model: eredu.Model, wish: eredu.speculation.Wish) -> tuple[int, ...]:
    return model.generate(PROMPT, max_tokens=LENGTH, temperature=1, seed=3, speculation=wish).tokens


@pytest.fixture(scope="module")
def bare(directories: PairDirectories) -> eredu.Model:
    return eredu.load(directories.target)


def test_auto_takes_the_assistant_that_the_model_was_loaded_with(
    pair: eredu.Model, directories: PairDirectories
) -> None:
    result = pair.generate(PROMPT, max_tokens=LENGTH)
    assert result.speculation == pair.speculation
    assert result.speculation.drafter is MtpCheckpointKind.SEPARATE
    assert result.speculation.reason == f"the assistant in {directories.draft} proposes"
    assert result.statistics.accepted > 0
    assert pair.mtp_capability == MtpCapability.ready(MtpCheckpointKind.SEPARATE)


def test_auto_says_why_nobody_proposes(bare: eredu.Model) -> None:
    result = bare.generate(PROMPT, max_tokens=LENGTH)
    assert (result.speculation.drafter, result.statistics.drafted) == (None, 0)
    assert result.speculation.reason.startswith("plain decoding: there are no prediction heads")
    assert "assistant=…" in result.speculation.reason
    assert bare.speculation == result.speculation
    with bare.session() as session:
        session.add(PROMPT, max_tokens=LENGTH)
        list(session)
        assert session.tokens(0) == result.tokens
        assert session.request_statistics(0).requested_depth == result.statistics.requested_depth == 0
    left_aside = eredu.load("tiny-qwen3.5", heads=False)
    assert "they were left aside" in left_aside.speculation.reason


def test_an_assistant_is_named_in_a_call_or_given_in_memory(
    bare: eredu.Model, pair: eredu.Model, directories: PairDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = tokens(pair, "auto")
    assert tokens(bare, eredu.Speculation(assistant=directories.draft)) == expected
    monkeypatch.setattr("eredu.engine.load.load_assistant", None)  # loaded once, whatever spells its path
    assert tokens(bare, eredu.Speculation(assistant=str(directories.draft))) == expected
    monkeypatch.undo()
    inside = load_assistant(directories.draft, tokenizer=bare.tokenizer)
    assert tokens(bare, eredu.Speculation(assistant=inside)) == expected
    assert tokens(bare.with_assistant(directories.draft), "auto") == expected
    assert bare.speculation.drafter is None


@pytest.mark.parametrize("acceptance", ["rejection", "block", "coupled"])
@pytest.mark.parametrize("proposals", [1, 4])
def test_what_is_wished_is_done(pair: eredu.Model, acceptance: str, proposals: int) -> None:
    wish = eredu.Speculation(acceptance=acceptance, proposals=proposals)  # type: ignore[arg-type]
    result = pair.generate(PROMPT, max_tokens=LENGTH, temperature=1, seed=3, speculation=wish)
    assert result.statistics.requested_depth == proposals
    assert len(result.statistics.drafted_by_position) == proposals
    assert (result.statistics.lookahead_blocks > 0) is True
    off = replace(wish, lookahead=False)
    assert pair.generate(PROMPT, max_tokens=LENGTH, speculation=off).statistics.lookahead_blocks == 0
    with pair.session(speculation=off) as session:
        session.add(PROMPT, max_tokens=LENGTH)
        list(session)
        assert session.request_statistics(0).lookahead_blocks == 0
    if acceptance == "coupled":
        assert result.tokens == tokens(pair, eredu.Speculation(acceptance="coupled", proposals=0))


# rule: capability.no-silent-fallback
def test_a_wish_without_drafter_is_refused_by_every_call(bare: eredu.Model) -> None:
    wish = eredu.Speculation(proposals=3)
    for call in (
        lambda: bare.generate(PROMPT, speculation=wish),
        lambda: bare.stream(PROMPT, speculation=wish),
        lambda: bare.session(speculation=wish),
    ):
        with pytest.raises(CapabilityError, match=r"there are no prediction heads .* speculation=None decodes plainly"):
            call()
    reference = eredu.Speculation(acceptance="coupled", proposals=0)
    assert bare.generate(PROMPT, max_tokens=4, speculation=reference).speculation.drafter is None


# rule: capability.no-silent-fallback
def test_an_architecture_that_cannot_roll_back_is_named(pair: eredu.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = MtpCapability.unsupported(MtpCheckpointKind.SEPARATE, "strange")
    monkeypatch.setattr(MlxBackend, "mtp_capability", lambda *_: answer)
    result = pair.generate(PROMPT, max_tokens=4)
    assert result.speculation.reason.startswith("plain decoding: caches of strange cannot be rolled back exactly")
    with pytest.raises(CapabilityError, match="caches of strange cannot be rolled back exactly"):
        pair.generate(PROMPT, speculation=eredu.Speculation())


def test_prepared_calls_say_who_proposed(pair: eredu.Model) -> None:
    loaded = LoadedModel(pair.loaded.backend)
    request = eredu.prepared.PreparedRequest(prompt=(1, 2))
    assert loaded.generate_prepared_chat([request])[0].speculation.drafter is None
    batch = loaded.generate_prepared_chat_mtp(request, pair.assistant)
    assert batch.speculation.drafter is MtpCheckpointKind.SEPARATE
