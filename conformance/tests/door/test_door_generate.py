"""`Model.generate` gives what the prepared calls give, for one prompt and for a batch, and says who proposed."""

from __future__ import annotations

from typing import Any

import pytest

import eredu
from eredu.contract.errors import CheckpointError, OptionError, TokenizerError
from eredu.contract.options import AcceptanceRule, GenerationOptions, SamplingOptions
from eredu.loaded import LoadedModel
from eredu.prepared import PreparedRequest

FOX, SEA = "Write a story about a fox.", "Write a story about a lighthouse."
WARM = SamplingOptions(temperature=0.8)


def prepared(model: eredu.Model, text: str, **options: Any) -> PreparedRequest:
    ids = model.tokenizer.apply_chat([{"role": "user", "content": text}])
    return PreparedRequest(prompt=ids, options=GenerationOptions(max_tokens=12, **options))


def test_one_prompt_is_the_prepared_call_in_every_form(model: eredu.Model) -> None:
    request = prepared(model, SEA, sampling=WARM, seed=3)
    expected = model.loaded.generate_prepared_chat_mtp(request)
    chat = [{"role": "user", "content": SEA}]
    for prompt in (SEA, chat, list(request.prompt)):
        found = model.generate(prompt, max_tokens=12, temperature=0.8, seed=3)
        assert (found.tokens, found.text, found.finish) == (expected.tokens, expected.text, expected.finish)
        assert found.statistics.rounds == expected.statistics.rounds
    assert model.generate(SEA, max_tokens=12, temperature=0.8, seed=4).tokens != expected.tokens
    assert model.generate(SEA, max_tokens=12, temperature=0.8).tokens == (
        model.generate(SEA, max_tokens=12, temperature=0.8, seed=0).tokens
    )


def test_a_batch_is_the_prepared_batch(model: eredu.Model) -> None:
    requests = [prepared(model, text, sampling=WARM) for text in (FOX, SEA, SEA)]
    expected = model.loaded.generate_prepared_chat_mtp_batch(requests, seed=3)
    found = model.generate([FOX, SEA, SEA], max_tokens=12, temperature=0.8, seed=3)
    assert [each.tokens for each in found] == [each.tokens for each in expected]
    assert found[1].tokens != found[2].tokens, "the prompts of a batch draw from one stream"
    assert (len(found), found.schedule.turns) == (3, expected.schedule.turns)
    ids = [list(request.prompt) for request in requests]
    assert model.generate(ids, max_tokens=12, temperature=0.8, seed=3)[2].tokens == expected[2].tokens


def test_speculation_none_is_the_plain_call(model: eredu.Model) -> None:
    rule = AcceptanceRule.COUPLED
    expected = model.loaded.generate_prepared_chat([prepared(model, SEA, sampling=WARM, seed=3, acceptance=rule)])[0]
    coupled = eredu.Speculation(acceptance="coupled", proposals=3)
    found = model.generate(SEA, max_tokens=12, temperature=0.8, seed=3, speculation=coupled)
    assert found.tokens == expected.tokens
    assert (found.statistics.requested_depth, found.statistics.drafted > 0) == (3, True)
    plain = model.generate(SEA, max_tokens=12, temperature=0.8, seed=3, speculation=None)
    assert (plain.statistics.drafted, plain.speculation.drafter) == (0, None)
    assert plain.speculation.reason == "plain decoding was asked for"
    reference = model.generate(
        SEA, max_tokens=12, temperature=0.8, seed=3, speculation=eredu.Speculation(acceptance="coupled", proposals=0)
    )
    assert (reference.tokens, reference.statistics.drafted) == (expected.tokens, 0)


def test_stops_and_raw_text(model: eredu.Model) -> None:
    whole = model.generate(SEA, max_tokens=30)
    cut = model.generate(SEA, max_tokens=30, stop="lighthouse")
    assert cut.finish is eredu.FinishReason.STOP
    assert cut.text == whole.text[: whole.text.index("lighthouse")]
    raw = model.generate(SEA, max_tokens=4, raw=True)
    assert raw.tokens == model.generate(model.tokenizer.encode(SEA), max_tokens=4).tokens


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ([4096], {}, "prompt token 4096 is outside the vocabulary of 4096 ids"),
        ([-1], {}, "prompt token -1 is outside the vocabulary"),
        ([5] * 5000, {}, "the prompt has 5000 tokens and the target takes 4096; shorten it"),
        (SEA, {"max_tokens": 0}, "max_tokens was 0"),
        (SEA, {"temp": 1}, "did you mean temperature"),
        (SEA, {"speculation": True}, 'speculation was True; expected "auto", None, or eredu.Speculation'),
        (SEA, {"speculation": "always"}, "speculation was 'always'"),
        (SEA, {"speculation": eredu.Speculation(assistant=5)}, "assistant was 5; expected a name, a path"),  # type: ignore[arg-type]
        (SEA, {"trace": 5}, "trace was 5; expected a function"),
        (SEA, {"logit_bias": {4096: 1.0}}, "logit_bias id 4096 is outside the vocabulary"),
    ],
)
def test_bad_input_is_refused_alike_by_every_call(model: eredu.Model, prompt: Any, options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        model.generate(prompt, **options)
    with pytest.raises(OptionError, match=message):
        model.stream(prompt, **options)
    wishes = {name: options[name] for name in options if name in {"speculation", "trace"}}
    rest = {name: options[name] for name in options if name not in wishes}
    with pytest.raises(OptionError, match=message), model.session(**wishes) as session:
        session.add(prompt, **rest)


def test_assistants_that_cannot_be(model: eredu.Model) -> None:
    with pytest.raises(CheckpointError, match="'/no/such' is neither a path that exists"):
        model.generate(SEA, speculation=eredu.Speculation(assistant="/no/such"))
    with pytest.raises(TokenizerError, match=r"tokenizer is not the target's: .* the first difference is id"):
        model.generate(SEA, speculation=eredu.Speculation(assistant="smollm2-draft"))


def test_a_model_says_what_it_is(model: eredu.Model) -> None:
    assert repr(model).startswith("<eredu.Model tiny-qwen3.5 on MLX on ")
    assert isinstance(model.loaded, LoadedModel)
    assert model.mtp_capability.to_json() == {"state": "ready", "checkpoint": "embedded"}
    assert model.tokenizer.decode(model.tokenizer.encode(SEA)) == SEA
