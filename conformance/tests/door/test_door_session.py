"""Sessions: requests join and leave at any time, nobody else notices, and a session has one thread."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import eredu
from eredu.contract.errors import OptionError, SessionError, ThreadError
from eredu.contract.options import MtpSchedulerOptions

FOX, SEA = "Write a story about a fox.", "Write a story about a lighthouse."
WARM: Any = {"max_tokens": 12, "temperature": 0.8}


def test_requests_join_at_any_time_and_change_nobody(model: eredu.Model) -> None:
    alone = {seed: model.generate(text, seed=seed, **WARM).tokens for seed, text in ((1, FOX), (2, SEA), (3, SEA))}
    with model.session() as session:
        fox = session.add(FOX, seed=1, **WARM)
        events = session.events()
        next(events)
        sea = session.add(SEA, seed=2, **WARM)
        order = [event.request for event in events]
        assert (fox, sea) == (0, 1)
        assert order.index(sea) < len(order) - 1 - order[::-1].index(fox), "the newcomer waited for the other's end"
        assert session.tokens(fox) == alone[1]
        assert session.result(sea).tokens == alone[2]
        late = session.add([{"role": "user", "content": SEA}], seed=3, **WARM)
        assert [event.request for event in session][-1] == late
        assert session.tokens(late) == alone[3]
        assert session.text(late) == model.tokenizer.decode(alone[3])
        assert session.statistics().requests.emitted == sum(map(len, alone.values()))
        assert len(session.results()) == 3


def test_a_request_without_a_seed_draws_from_the_session_s(model: eredu.Model) -> None:
    expected = model.generate([FOX, SEA], seed=5, **WARM)
    with model.session(seed=5) as session:
        for text in (FOX, SEA):
            session.add(text, **WARM)
        list(session)
        assert [each.tokens for each in session.results()] == [each.tokens for each in expected]


def test_cancelling_is_at_once_and_changes_nobody(model: eredu.Model) -> None:
    expected = model.generate(SEA, seed=2, **WARM).tokens
    with model.session() as session:
        fox, sea = session.add(FOX, max_tokens=200), session.add(SEA, seed=2, **WARM)
        for event in session:
            if event.request == fox and session.finish(fox) is None:
                session.cancel(fox)
                assert session.finish(fox) is eredu.FinishReason.CANCELLED
                assert session.finish(sea) is None
        session.cancel(fox)
        assert session.tokens(sea) == expected
        assert 0 < session.request_statistics(fox).emitted == len(session.tokens(fox)) < 200
        assert session.statistics().cancelled == 1
        assert session.result(fox).statistics == session.request_statistics(fox)


def test_sessions_of_one_model_are_apart(model: eredu.Model, lent: list[Any]) -> None:
    expected = [model.generate(text, seed=1, **WARM).tokens for text in (FOX, SEA)]
    with model.session() as one, model.session(speculation=None) as other:
        one.add(FOX, seed=1, **WARM)
        other.add(SEA, seed=1, max_tokens=12)
        assert len(lent) == 2
        pairs = list(zip(one, other, strict=False))
        list(one), list(other)
        assert len(pairs) > 1
        assert one.tokens(0) == expected[0]
        assert other.speculation.drafter is None
        assert other.tokens(0) == model.generate(SEA, max_tokens=12).tokens
    assert lent == []


def test_threads_share_a_model_and_have_sessions_of_their_own(model: eredu.Model) -> None:
    expected = {seed: model.generate(SEA, seed=seed, **WARM).tokens for seed in range(4)}
    found: dict[int, tuple[int, ...]] = {}

    def run(seed: int) -> None:
        with model.session() as session:
            session.add(SEA, seed=seed, **WARM)
            list(session)
            found[seed] = session.tokens(0)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def test_every_call_from_another_thread_is_refused(model: eredu.Model) -> None:
    session = model.session()
    session.add(SEA, max_tokens=200)
    events = session.events()
    calls: list[Any] = [
        lambda: session.add(FOX),
        lambda: session.cancel(0),
        session.events,
        session.next_event,
        lambda: next(events),
        session.close,
        session.results,
        session.statistics,
        *(lambda ask=ask: ask(0) for ask in (session.tokens, session.text, session.finish, session.result)),
        lambda: session.request_statistics(0),
        lambda: session.__exit__(None, None, None),
    ]
    refused: list[str] = []

    def use() -> None:
        for call in calls:
            try:
                call()
            except ThreadError as error:
                refused.append(str(error))

    thread = threading.Thread(target=use, name="other")
    thread.start()
    thread.join()
    assert len(refused) == len(calls)
    message = "this session belongs to thread 'MainThread' and was used from 'other'; use it there, or make one here"
    assert {each.partition(":")[0] for each in refused} == {message}
    assert isinstance(next(events), eredu.TokensCommitted)
    session.close()


def test_letting_go_in_another_thread_touches_nothing(model: eredu.Model, lent: list[Any]) -> None:
    trace: list[dict[str, object]] = []
    held = [model.session(trace=trace.append)]
    held[0].add(SEA, max_tokens=200)
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert [entry["event"] for entry in trace] == ["open"]


def test_after_closing_only_what_came_out_is_there(model: eredu.Model, lent: list[Any]) -> None:
    session = model.session()
    request = session.add(SEA, max_tokens=200)
    events = session.events()
    next(events)
    states = [session.is_closed]
    for _ in range(2):
        session.close()
        states.append(session.is_closed)
    assert states == [False, True, True]
    assert lent == []
    assert list(events) == []
    assert session.next_event() is None
    assert session.result(request).finish is eredu.FinishReason.CANCELLED
    for call in (lambda: session.add(SEA), lambda: session.cancel(request), session.events):
        with pytest.raises(SessionError, match=r"this session is closed; make another with model\.session\(\)"):
            call()


def test_a_failing_request_leaves_the_others(
    model: eredu.Model, lent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = model.generate(SEA, seed=2, **WARM).tokens
    with model.session() as session:
        fox, sea = session.add(FOX, max_tokens=200), session.add(SEA, seed=2, **WARM)
        next(session.events())
        commit = lent[0].commit
        failed: list[Any] = []

        def fail_once(sequence: Any, *rest: Any) -> Any:
            if not failed:
                failed.append(sequence)
                raise MemoryError("no more")
            return commit(sequence, *rest)

        monkeypatch.setattr(lent[0], "commit", fail_once)
        with pytest.raises(MemoryError, match="no more"):
            list(session)
        list(session)
        ends = {session.finish(fox), session.finish(sea)}
        assert eredu.FinishReason.FAILED in ends
        if session.finish(sea) is eredu.FinishReason.LENGTH:
            assert session.tokens(sea) == expected
        else:
            assert len(session.tokens(fox)) == 200
        third = session.add(SEA, seed=2, **WARM)
        list(session)
        assert session.tokens(third) == expected


@pytest.mark.parametrize("request_", [0, 7, -1, "a", None])
def test_an_unknown_request(model: eredu.Model, request_: Any) -> None:
    with model.session() as session:
        for call in (session.cancel, session.tokens, session.finish, session.result, session.request_statistics):
            with pytest.raises(OptionError, match=f"there is no request {request_!r}; .* no requests yet"):
                call(request_)
        session.add(SEA)
        with pytest.raises(OptionError, match=r"there is no request 3; this session has requests 0 to 0"):
            session.cancel(3)
        with pytest.raises(SessionError, match="request 0 has not ended yet; take its events to the end"):
            session.results()


def test_a_refused_request_takes_no_number(model: eredu.Model) -> None:
    with model.session() as session:
        for bad in ("", [4096], ["a", "b"]):
            with pytest.raises(OptionError):
                session.add(bad)  # type: ignore[arg-type]
        with pytest.raises(OptionError, match="did you mean max_tokens"):
            session.add(SEA, max_token=3)  # type: ignore[call-arg]
        assert session.add(SEA, max_tokens=1) == 0


def test_a_session_has_the_schedule_of_its_speculation(model: eredu.Model) -> None:
    trace: list[dict[str, Any]] = []
    wish = eredu.Speculation(proposals=3, lookahead=False)
    with model.session(speculation=wish, trace=trace.append) as session:
        session.add(SEA, max_tokens=8)
        list(session)
    assert wish.schedule == MtpSchedulerOptions(lookahead=False)
    assert "branch" not in {entry["event"] for entry in trace}
    assert session.request_statistics(0).requested_depth == 3
    with pytest.raises(OptionError, match="seed was -1"):
        model.session(seed=-1)
