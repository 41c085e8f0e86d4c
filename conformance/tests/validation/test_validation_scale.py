"""Several processes draw for one validation: the evidence is one process's, whoever is slow, dies or fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eredu.contract.errors import EreduError, EvidenceError, OptionError
from eredu_validation.command import worker_count
from eredu_validation.command.worker_count import automatic_workers, wanted_workers
from eredu_validation.evidence import LEDGER_NAME, Columns, Emission, Stratum, SubjectIdentity, columns_of, read_ledger
from eredu_validation.evidence.wave import Wave
from eredu_validation.session.law_run import LawRun
from eredu_validation.workers.work_plan import MOST_AHEAD, Portion, WorkPlan
from eredu_validation.workers.worker import Worker
from eredu_validation.workers.worker_handle import WorkerHandle
from eredu_validation.workers.worker_messages import Message, columns_message, columns_of_message
from eredu_validation.workers.worker_pool import WorkerPool

LawOnly = Callable[..., tuple[Any, dict[str, Any]]]
SUBJECT = SubjectIdentity(target="t")


def columns_for(portion: Portion) -> Columns:
    """One token a request, which says whose it is."""
    row = np.array([0.25, 0.75])
    stratum = Stratum(offset=0, proposals=1)
    numbers = range(portion.first, portion.stop)
    return columns_of([Emission(token=1, target=row, stratum=stratum, request=n, position=0) for n in numbers])


# --- portions ---------------------------------------------------------------------------------------------------------


def run_plan(plan: WorkPlan[int], lengths: list[int], choose: Callable[[int], int], hands: int) -> list[Portion]:
    """Portions in the order in which they count, drawn by some processes that end in any order."""
    out: list[Portion] = []
    counted: list[Portion] = []
    while plan.taken < plan.needed:
        while len(out) < hands and (portion := plan.deal()) is not None:
            out.append(portion)
        portion = out.pop(choose(len(out)))
        numbers = range(portion.first, portion.stop)
        plan.arrive(portion, sum(min(portion.length, lengths[n % len(lengths)]) for n in numbers))
        while (due := plan.due()) is not None and plan.taken < plan.needed:
            plan.count(due[0], plan.taken + due[1])
            counted.append(due[0])
    return counted


@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=9),
    needed=st.integers(1, 600),
    hands=st.integers(1, 5),
    shares=st.integers(1, 4),
    data=st.data(),
)
def test_portions_are_the_same_for_any_number_of_processes(
    lengths: list[int], needed: int, hands: int, shares: int, data: st.DataObject
) -> None:
    def plan() -> WorkPlan[int]:
        return WorkPlan(first=0, taken=0, needed=needed, batch=4, length=12, shares=shares)

    alone = run_plan(plan(), lengths, lambda _: 0, 1)
    together = run_plan(plan(), lengths, lambda count: data.draw(st.integers(0, count - 1)), hands)
    assert together == alone
    assert [portion.first for portion in alone] == [0, *(portion.stop for portion in alone)][:-1]
    assert all(portion.count <= 4 and portion.length <= 12 for portion in alone)


def test_the_last_portions_are_small_enough_for_all() -> None:
    plan: WorkPlan[int] = WorkPlan(first=0, taken=0, needed=240, batch=4, length=12, shares=4)
    portions = [portion for portion in (plan.deal() for _ in range(9)) if portion is not None]
    assert [portion.count for portion in portions] == [4, 4, 3, 3, 2, 1, 1, 1, 1]


def test_a_goal_that_is_settled_late_changes_no_portion() -> None:
    late: WorkPlan[int] = WorkPlan(first=0, taken=0, needed=100, batch=4, length=10, settled=False)
    ahead = [late.deal(), late.deal(), late.deal()]
    assert ahead == [Portion(0, 4, 10), Portion(4, 4, 10), None], "only whole portions before the goal is known"
    late.settle(130)
    rest = [late.deal(), late.deal(), late.deal()]
    assert rest == [Portion(8, 4, 10), Portion(12, 1, 10), None]


def drawn_to_the_end(plan: WorkPlan[int], needed: int) -> list[tuple[Portion, int, Wave]]:
    """Every portion with the tokens after it and its wave; outputs are shorter than they may be, so waves follow."""
    found = []
    while plan.taken < needed:
        portion = plan.deal()
        assert portion is not None
        plan.arrive(portion, 1)
        taken = plan.taken + sum(min(portion.length, 2 + n % 5) for n in range(portion.first, portion.stop))
        found.append((portion, taken, plan.wave))
        plan.count(portion, taken)
    return found


def test_a_plan_goes_on_as_if_it_had_never_stopped() -> None:
    whole = drawn_to_the_end(WorkPlan(first=0, taken=0, needed=240, batch=4, length=12, shares=4), 240)
    assert len({wave for *_, wave in whole}) == 2
    for number, (portion, taken, wave) in enumerate(whole[:-1], start=1):
        plan: WorkPlan[int] = WorkPlan(
            first=portion.stop, taken=taken, needed=100, batch=4, length=12, shares=4, settled=False, begun=wave
        )
        plan.settle(240)
        assert drawn_to_the_end(plan, 240) == whole[number:]


def test_what_was_given_back_is_dealt_again_and_nothing_counts_before_it() -> None:
    plan: WorkPlan[int] = WorkPlan(first=0, taken=0, needed=100, batch=2, length=10)
    first, second = plan.deal(), plan.deal()
    assert first is not None
    assert second is not None
    plan.arrive(second, 20)
    assert plan.due() is None
    plan.give_back(first)
    assert plan.deal() == first
    plan.arrive(first, 20)
    assert plan.due() == (first, 20)


def test_no_more_is_drawn_ahead_than_memory_holds() -> None:
    plan: WorkPlan[int] = WorkPlan(first=0, taken=0, needed=10**6, batch=1, length=1)
    dealt = [plan.deal() for _ in range(MOST_AHEAD + 1)]
    assert dealt[-2] is not None
    assert dealt[-1] is None


# --- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [3, 3000])
def test_columns_travel_with_every_bit(width: int) -> None:
    generator = np.random.default_rng(width)

    def row() -> Any:
        return generator.dirichlet(np.ones(width))

    drawn = columns_of(
        [
            Emission(
                token=n % 3, target=row(), draft=row(), stratum=Stratum(offset=n, proposals=2), request=5, position=n
            )
            for n in range(3)
        ]
    )
    back = columns_of_message(Message.of_bytes(columns_message(drawn, {"first": 5}).to_bytes()))
    for each in fields(Columns):
        np.testing.assert_array_equal(getattr(back, each.name), getattr(drawn, each.name))
    assert back.unmasked is back.target, "rows that are the target's travelled once"


@pytest.mark.parametrize("data", [b"", b"nonsense", b"PK\x03\x04"])
def test_nonsense_is_no_message(data: bytes) -> None:
    with pytest.raises(EvidenceError, match="are no message"):
        Message.of_bytes(data)


def test_nothing_in_a_message_is_unpickled() -> None:
    with pytest.raises(EvidenceError, match="are no message"):
        Message.of_bytes(Message("ready", arrays={"a": np.array([{}], dtype=object)}).to_bytes())


# --- a pool of threads ------------------------------------------------------------------------------------------------

Draw = Callable[[int, int, Portion, Callable[[int], None]], Columns]


class Threads:
    """Workers that are threads, and the pool that asks them."""

    def __init__(self) -> None:
        self.workers: list[WorkerHandle] = []
        self.ends: list[Connection] = []

    def add(self, draw: Draw, subject: SubjectIdentity = SUBJECT) -> None:
        here, there = Pipe()
        Thread(target=Worker(there, draw).serve, args=(subject,), daemon=True).start()
        self.workers.append(WorkerHandle(f"worker {len(self.workers) + 2}", here))
        self.ends.append(there)

    def pool(self, needed: int = 40, **options: Any) -> WorkerPool:
        pool = WorkerPool(lambda: self.workers, identity=SUBJECT, **options)
        pool.begin(WorkPlan(first=0, taken=0, needed=needed, batch=2, length=1), seed=3, part=0)
        return pool


def gather(pool: WorkerPool, needed: int = 40, *, own: Draw | None = None) -> list[int]:
    """Requests of all counted tokens, in the order in which they counted."""
    requests: list[int] = []
    while len(requests) < needed:

        def draw(portion: Portion, on_tokens: Callable[[int], None]) -> Columns:
            return columns_for(portion) if own is None else own(0, 0, portion, on_tokens)

        portion, columns = pool.next_drawn(draw, lambda _: None)
        requests += columns.requests.tolist()
        pool.counted(portion, len(requests))
    return requests


@pytest.fixture
def threads() -> Threads:
    return Threads()


def slow(seconds: float, seen: list[int]) -> Draw:
    def draw(seed: int, part: int, portion: Portion, on_tokens: Callable[[int], None]) -> Columns:
        assert (seed, part) == (3, 0)
        for _ in range(portion.count):
            time.sleep(seconds)
            on_tokens(1)
        seen.append(portion.first)
        return columns_for(portion)

    return draw


def test_all_draw_and_what_they_drew_counts_in_order(threads: Threads) -> None:
    seen: list[list[int]] = [[], [], []]
    for number, seconds in enumerate((0.001, 0.01)):
        threads.add(slow(seconds, seen[number]))
    with threads.pool() as pool:
        assert gather(pool, own=lambda *a: slow(0.005, seen[2])(3, 0, *a[2:])) == list(range(40))
    assert all(seen)
    assert pool.losses == []


def test_one_that_hangs_up_is_replaced(threads: Threads) -> None:
    told: list[str] = []
    drawing = Event()

    def forever(*_: Any) -> Columns:
        drawing.set()
        time.sleep(60)
        raise AssertionError

    threads.add(forever)
    threads.add(slow(0.001, []))
    with threads.pool(on_loss=told.append) as pool:
        assert drawing.wait(10)
        threads.ends[0].close()
        assert gather(pool) == list(range(40))
    assert told == pool.losses
    assert told == ["worker 2 is lost: its connection was lost; what it drew counts, and the others draw the rest"]


def test_another_subject_draws_nothing(threads: Threads) -> None:
    seen: list[int] = []
    threads.add(slow(0, seen), SubjectIdentity(target="other"))
    with threads.pool() as pool:
        assert gather(pool, own=lambda *a: slow(0.01, [])(3, 0, *a[2:])) == list(range(40))
    assert seen == []
    assert 'another subject: target was "t" and is "other"' in pool.losses[0]


def test_a_failure_counts_when_its_turn_comes(threads: Threads) -> None:
    failed = Event()

    def fail(seed: int, part: int, portion: Portion, on_tokens: Callable[[int], None]) -> Columns:
        failed.set()
        raise EreduError(f"portion {portion.first}")

    threads.add(fail)
    counted: list[int] = []

    def until_it_fails(pool: WorkerPool) -> None:
        assert failed.wait(10)
        while True:
            portion, _ = pool.next_drawn(lambda portion, _: columns_for(portion), lambda _: None)
            counted.append(portion.first)
            pool.counted(portion, 2 * len(counted))

    with threads.pool() as pool, pytest.raises(EreduError, match=r"portion \d+"):
        until_it_fails(pool)
    assert counted == list(range(0, 2 * len(counted), 2))


def test_a_pause_stops_the_others_between_two_rounds(threads: Threads) -> None:
    rounds = [0]

    def draw(seed: int, part: int, portion: Portion, on_tokens: Callable[[int], None]) -> Columns:
        for _ in range(1000):
            time.sleep(0.001)
            rounds[0] += 1
            on_tokens(1)
        return columns_for(portion)

    threads.add(draw)
    with threads.pool() as pool:
        while rounds[0] < 5:
            time.sleep(0.001)
        pool.pause()
        before = rounds[0]
        time.sleep(0.05)
        assert rounds[0] == before
        pool.resume()
        limit = time.monotonic() + 10
        while rounds[0] == before and time.monotonic() < limit:
            time.sleep(0.001)
        assert rounds[0] > before


# --- processes --------------------------------------------------------------------------------------------------------


@pytest.fixture
def all_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process draws nothing before every other has loaded its subject."""
    run = LawRun.run

    def patient(self: LawRun, ledger: Any, on_progress: Any, pool: WorkerPool) -> None:
        limit = time.monotonic() + 60
        while not all(worker.ready for worker in pool._workers) and time.monotonic() < limit:
            time.sleep(0.01)
        run(self, ledger, on_progress, pool)

    monkeypatch.setattr(LawRun, "run", patient)


def test_two_processes_have_the_evidence_of_one(
    law_only: LawOnly, all_draw: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both draw, in parallel, until a signal kills the second behind its first portion. Two ledgers, one text."""
    drew: list[str] = []
    arrive, hear = WorkerPool._arrive, WorkerPool._hear

    def arriving(self: WorkerPool, worker: WorkerHandle, drawn: Any) -> None:
        drew.append(worker.name)
        arrive(self, worker, drawn)

    def killing(self: WorkerPool, worker: WorkerHandle, message: Message) -> None:
        if message.kind == "tokens" and worker.name in drew and worker.process is not None:
            worker.process.kill()
        hear(self, worker, message)

    arguments = ("--tokens", "600", "--seed", "5")
    law_only(tmp_path / "one", *arguments)
    monkeypatch.setattr(WorkerPool, "_arrive", arriving)
    monkeypatch.setattr(WorkerPool, "_hear", killing)
    ran, _ = law_only(tmp_path / "two", *arguments, "--workers", "2")
    assert ran.status == 0, ran
    assert "worker 2" in drew
    assert "worker 2 is lost: it was killed by signal 9; what it drew counts" in " ".join(ran.stderr.split())
    one, two = (read_ledger(tmp_path / name / LEDGER_NAME).batches for name in ("one", "two"))
    assert two == one


@pytest.mark.parametrize("said", ["0", "-1", "1.5", "many", ""])
def test_a_number_of_workers_is_asked_for(said: str) -> None:
    with pytest.raises(OptionError, match="--workers was"):
        wanted_workers(said)


@pytest.mark.parametrize(
    ("cores", "copies", "needed", "expected"),
    [
        (2, 100, 8000, 2),
        (16, 100, 100_000, 4),
        (16, 7, 100_000, 3),
        (16, 1, 100_000, 1),
        (8, 100, 1000, 2),
        (8, 100, 9, 1),
    ],
)
def test_auto_counts_cores_memory_and_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, copies: int, needed: int, expected: int
) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"0" * 1000)
    monkeypatch.setattr(worker_count, "usable_cores", lambda: cores)
    monkeypatch.setattr(worker_count, "available_memory", lambda: 1000 * copies)

    class Request:
        target, assistant, head, subject = str(tmp_path), None, None, None

    assert automatic_workers(Request, needed) == expected  # type: ignore[arg-type]


def test_this_machine_has_cores_and_memory() -> None:
    assert worker_count.usable_cores() >= 1
    assert worker_count.available_memory() > 1 << 20
