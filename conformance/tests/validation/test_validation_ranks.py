"""Whole command lines under `mlx.launch` with the ring backend, every rank a process of this machine."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eredu.contract.errors import OptionError
from eredu_validation.evidence import LEDGER_NAME, SubjectIdentity, read_ledger
from eredu_validation.workers import ranks
from eredu_validation.workers.ranks import address_of_first
from eredu_validation.workers.worker_pool import WorkerPool

pytest.importorskip("mlx._distributed_utils.launch")
Launch = Callable[..., Any]
LawOnly = Callable[..., tuple[Any, dict[str, Any]]]
ARGUMENTS = ("--tokens", "400", "--seed", "5", "--max-tokens", "20")


def require_ledger_of_one(launched: Any, law_only: LawOnly, tmp_path: Path) -> None:
    law_only(tmp_path / "one", *ARGUMENTS)
    one = read_ledger(tmp_path / "one" / LEDGER_NAME).batches
    assert len(one) > 3
    assert launched.ledger == one, launched


def test_two_ranks_have_the_evidence_of_one_process(launch: Launch, law_only: LawOnly, tmp_path: Path) -> None:
    launched = launch(2, *ARGUMENTS, "--json", str(tmp_path / "result.json"))
    assert launched.stdout.count("no deviation; a TV deviation of") == 1, "only rank 0 speaks"
    assert "lost" not in launched.stderr
    assert json.loads((tmp_path / "result.json").read_text())["verdict"]["exit_status"] == 0
    require_ledger_of_one(launched, law_only, tmp_path)


@pytest.mark.nightly
def test_a_killed_rank_is_survived(launch: Launch, law_only: LawOnly, tmp_path: Path) -> None:
    """`mlx.launch` asks every rank to end then; rank 0 goes on with those that are left."""
    launched = launch(2, *ARGUMENTS, dying=1)
    assert "rank 1 is lost: its connection was lost; what it drew counts" in " ".join(launched.stderr.split())
    assert launched.stdout.count("no deviation; a TV deviation of") == 1
    require_ledger_of_one(launched, law_only, tmp_path)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_four_ranks_of_which_one_is_killed(launch: Launch, law_only: LawOnly, tmp_path: Path) -> None:
    launched = launch(4, *ARGUMENTS, dying=2)
    assert "rank 2 is lost" in launched.stderr
    assert "rank 1 is lost" not in launched.stderr
    assert "rank 3 is lost" not in launched.stderr
    require_ledger_of_one(launched, law_only, tmp_path)


def test_ranks_and_workers_are_two_ways(law_only: LawOnly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLX_RANK", "0")
    monkeypatch.setattr(ranks, "launched_group", object)
    ran, result = law_only(tmp_path / "ranks", *ARGUMENTS, "--workers", "2")
    assert (ran.status, result) == (2, {})
    assert "--workers divides one machine" in ran.stderr
    assert not (tmp_path / "ranks" / LEDGER_NAME).exists()


@pytest.mark.parametrize("losses", [[], ["rank 1 is lost"]])
def test_a_signal_to_end_is_the_users_own_unless_a_rank_is_lost(
    losses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a loss it stops as at Ctrl-C, which keeps the evidence."""
    monkeypatch.setattr(ranks, "LOST_S", 0.01)
    pool = WorkerPool(identity=SubjectIdentity(target="t"))
    pool.losses.extend(losses)
    before = signal.getsignal(signal.SIGTERM)
    interrupted = False
    with ranks.surviving(pool):
        try:
            signal.raise_signal(signal.SIGTERM)
            time.sleep(0.3)
        except KeyboardInterrupt:
            interrupted = True
    assert interrupted == (not losses)
    assert signal.getsignal(signal.SIGTERM) == before


def test_where_the_first_rank_is(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.json"
    hosts.write_text(json.dumps([["10.0.0.7:32323", "10.0.1.7:32324"], ["10.0.0.8:32325"]]), encoding="utf-8")
    assert address_of_first({"MLX_HOSTFILE": str(hosts)}) == "10.0.0.7"
    assert address_of_first({"MLX_JACCL_COORDINATOR": "10.0.0.9:4000"}) == "10.0.0.9"
    assert address_of_first({"NCCL_HOST_IP": "10.0.0.3"}) == "10.0.0.3"
    with pytest.raises(OptionError, match="not told where rank 0 is"):
        address_of_first({})
