"""A stream gives the events of the same call; closing it, leaving it, or letting go of it cancels at once."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

import eredu
from eredu.contract.errors import OptionError, SessionError, ThreadError

FOX, SEA = "Write a story about a fox.", "Write a story about a lighthouse."


def test_a_stream_tells_what_generate_gives(model: eredu.Model, lent: list[Any]) -> None:
    expected = model.generate(SEA, max_tokens=16, temperature=0.8, seed=2)
    stream = model.stream(SEA, max_tokens=16, temperature=0.8, seed=2)
    events = list(stream)
    committed = [event for event in events if isinstance(event, eredu.TokensCommitted)]
    assert "".join(event.text for event in committed) == expected.text
    assert tuple(token for event in committed for token in event.tokens) == expected.tokens
    assert [event.position for event in committed][:2] == [0, len(committed[0].tokens)]
    assert events[-1] == eredu.RequestFinished(0, expected.finish, stream.result().statistics)
    assert len(events) == len(committed) + 1
    assert (stream.result().tokens, stream.result().speculation) == (expected.tokens, expected.speculation)
    assert lent == []


def test_several_prompts_share_a_stream(model: eredu.Model) -> None:
    expected = model.generate([FOX, SEA], max_tokens=10, temperature=0.8, seed=2)
    stream = model.stream([FOX, SEA], max_tokens=10, temperature=0.8, seed=2)
    order = [event.request for event in stream]
    assert [each.tokens for each in stream.results()] == [each.tokens for each in expected]
    assert stream.results().schedule.turns == expected.schedule.turns
    assert order != sorted(order), "one prompt waited for the other"
    with pytest.raises(OptionError, match="there is no request 2; this session has requests 0 to 1"):
        stream.result(2)


def test_nothing_is_decoded_before_it_is_asked_for(model: eredu.Model) -> None:
    trace: list[dict[str, object]] = []
    stream = model.stream(SEA, max_tokens=16, trace=trace.append)
    assert [entry["event"] for entry in trace] == ["open"]
    first = next(stream)
    assert isinstance(first, eredu.TokensCommitted)
    assert [entry["event"] for entry in trace].count("commit") == 1
    stream.close()


def test_closing_cancels_at_once(model: eredu.Model, lent: list[Any]) -> None:
    trace: list[dict[str, object]] = []
    stream = model.stream(SEA, max_tokens=200, trace=trace.append)
    next(stream)
    assert len(lent) == 1
    with pytest.raises(SessionError, match="request 0 has not ended yet"):
        stream.result()
    stream.close()
    stream.close()
    assert lent == []
    assert [entry["event"] for entry in trace][-2:] == ["cancel", "close"]
    result = stream.result()
    assert result.finish is eredu.FinishReason.CANCELLED
    assert 0 < len(result.tokens) == result.statistics.emitted < 200
    assert list(stream) == []


def test_closing_inside_the_loop_ends_it(model: eredu.Model) -> None:
    seen = 0
    with model.stream(SEA, max_tokens=200) as stream:
        for _ in stream:
            seen += 1
            stream.close()
    assert seen == 1


def test_leaving_the_block_cancels(model: eredu.Model, lent: list[Any]) -> None:
    stream = model.stream(SEA, max_tokens=200)

    def use() -> None:
        with stream:
            next(stream)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use()
    assert lent == []
    assert stream.result().finish is eredu.FinishReason.CANCELLED


def test_letting_go_cancels(model: eredu.Model, lent: list[Any]) -> None:
    trace: list[dict[str, object]] = []
    for _ in model.stream(SEA, max_tokens=200, trace=trace.append):
        break
    gc.disable()  # the last reference must do, without a search for circles
    try:
        assert lent == []
    finally:
        gc.enable()
    assert trace[-1]["event"] == "close"


@pytest.mark.parametrize("prompts", [SEA, [FOX, SEA]])
def test_what_a_request_raises_is_raised_and_closes(
    model: eredu.Model, lent: list[Any], monkeypatch: pytest.MonkeyPatch, prompts: Any
) -> None:
    stream = model.stream(prompts, max_tokens=200)
    next(stream)

    def fail(*_: Any) -> None:
        raise MemoryError("no more")

    monkeypatch.setattr(lent[0], "commit", fail)
    with pytest.raises(MemoryError, match="no more"):
        list(stream)
    assert lent == []
    assert stream.result(0).finish in {eredu.FinishReason.FAILED, eredu.FinishReason.CANCELLED}
    assert list(stream) == []


def test_a_prompt_that_cannot_be_leaves_nothing_open(model: eredu.Model, lent: list[Any]) -> None:
    with pytest.raises(OptionError, match="outside the vocabulary"):
        model.stream([[1], [5000]])
    assert lent == []


def test_another_thread_is_refused(model: eredu.Model, lent: list[Any]) -> None:
    stream = model.stream(SEA, max_tokens=200)
    raised: list[Exception] = []

    def use() -> None:
        for call in (stream.__next__, stream.close, stream.result):
            try:
                call()
            except ThreadError as error:
                raised.append(error)

    thread = threading.Thread(target=use, name="other")
    thread.start()
    thread.join()
    assert len(raised) == 3
    assert "belongs to thread 'MainThread' and was used from 'other'" in str(raised[0])
    assert len(lent) == 1, "the refused call ended the stream of its owner"
    assert isinstance(next(stream), eredu.TokensCommitted)
    stream.close()
