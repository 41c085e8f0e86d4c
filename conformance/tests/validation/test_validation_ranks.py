"""Whole command lines under `mlx.launch` with the ring backend, every rank a process of this machine."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eredu.errors import OptionError
from eredu.evidence import Fingerprint
from eredu.validation import ranks
from eredu.validation.crew import Crew
from eredu.validation.law import LEDGER_NAME
from eredu.validation.ranks import address_of_first
from eredu_conformance.crafted import PairDirectories

pytest.importorskip("mlx._distributed_utils.launch")
LawOnly = Callable[..., tuple[Any, dict[str, Any]]]
SECONDS = 120
COMMAND = """
import os, signal, sys
from eredu.commands.main import main
from eredu.validation.worker import Worker

if os.environ.get("MLX_RANK") == sys.argv[1]:
    tell = Worker._tell

    def die(self, message):
        if message.kind == "tokens":
            os.kill(os.getpid(), signal.SIGKILL)
        tell(self, message)

    Worker._tell = die
sys.exit(main(sys.argv[2:]))
"""
"""The command, in which one rank, or none, is killed while it draws."""


LAUNCHER = "from mlx._distributed_utils.launch import main; main()"


@dataclass(frozen=True)
class Launched:
    """What the ranks printed, and the ledger that rank 0 kept."""

    stdout: str
    stderr: str
    ledger: list[str]


def free_port(count: int) -> int:
    """The first of some neighbouring ports that nobody uses."""
    for start in random.sample(range(20000, 32000, count), 50):
        try:
            for port in range(start, start + count):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return start
    raise RuntimeError("no free ports")


def started_by_launcher(count: int, command: list[str]) -> tuple[str, str]:
    options = ("-n", str(count), "--backend", "ring", "--starting-port", str(free_port(count)))
    whole = [sys.executable, "-c", LAUNCHER, *options, *command]
    ran = subprocess.run(whole, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False)
    return ran.stdout, ran.stderr


def started_here(count: int, command: list[str], folder: Path) -> tuple[str, str]:
    """With the environment that `mlx.launch` gives, without its own load on the machine."""
    hosts, port = folder / "hosts.json", free_port(count)
    hosts.write_text(json.dumps([[f"127.0.0.1:{port + rank}"] for rank in range(count)]), encoding="utf-8")
    environments = [{**os.environ, "MLX_HOSTFILE": str(hosts), "MLX_RANK": str(rank)} for rank in range(count)]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, env=each, stdout=pipe, stderr=pipe, text=True) for each in environments]
    told = [process.communicate(timeout=SECONDS) for process in processes]
    return "".join(out for out, _ in told), "".join(err for _, err in told)


@pytest.fixture
def launch(pair: PairDirectories, tmp_path: Path) -> Callable[..., Launched]:
    def run(count: int, *arguments: str, dying: int | None = None) -> Launched:
        script, place = tmp_path / "command.py", tmp_path / "ranks"
        script.write_text(COMMAND, encoding="utf-8")
        skips = [word for part in ("numerics", "state", "path", "benefit") for word in ("--skip", part)]
        models = (str(pair.target), "--assistant", str(pair.draft), "--resume", str(place))
        command = [sys.executable, str(script), str(dying), "validate", *models, *skips, *arguments]
        start = started_by_launcher if dying is not None else partial(started_here, folder=tmp_path)
        stdout, stderr = start(count, command)
        ledger = place / LEDGER_NAME
        lines = ledger.read_text(encoding="utf-8").splitlines() if ledger.exists() else []
        return Launched(stdout, stderr, lines)

    return run


ARGUMENTS = ("--tokens", "400", "--seed", "5", "--max-tokens", "20")


def require_ledger_of_one(launched: Launched, law_only: LawOnly, tmp_path: Path) -> None:
    law_only(tmp_path / "one", *ARGUMENTS)
    one = (tmp_path / "one" / LEDGER_NAME).read_text(encoding="utf-8").splitlines()
    assert len(one) > 3
    assert launched.ledger[1:] == one[1:], launched


def test_two_ranks_have_the_evidence_of_one_process(
    launch: Callable[..., Launched], law_only: LawOnly, tmp_path: Path
) -> None:
    launched = launch(2, *ARGUMENTS, "--json", str(tmp_path / "result.json"))
    assert launched.stdout.count("no deviation; a TV deviation of") == 1, "only rank 0 speaks"
    assert "lost" not in launched.stderr
    assert json.loads((tmp_path / "result.json").read_text())["verdict"]["exit_status"] == 0
    require_ledger_of_one(launched, law_only, tmp_path)


def test_a_killed_rank_is_survived(launch: Callable[..., Launched], law_only: LawOnly, tmp_path: Path) -> None:
    """`mlx.launch` asks every rank to end then; rank 0 goes on with those that are left."""
    launched = launch(2, *ARGUMENTS, dying=1)
    assert "rank 1 is lost: its connection was lost; what it drew counts" in " ".join(launched.stderr.split())
    assert launched.stdout.count("no deviation; a TV deviation of") == 1
    require_ledger_of_one(launched, law_only, tmp_path)


@pytest.mark.nightly
def test_four_ranks_of_which_one_is_killed(launch: Callable[..., Launched], law_only: LawOnly, tmp_path: Path) -> None:
    launched = launch(4, *ARGUMENTS, dying=2)
    assert "rank 2 is lost" in launched.stderr
    assert "rank 1 is lost" not in launched.stderr
    assert "rank 3 is lost" not in launched.stderr
    require_ledger_of_one(launched, law_only, tmp_path)


def test_ranks_and_workers_are_two_ways(launch: Callable[..., Launched], tmp_path: Path) -> None:
    launched = launch(2, *ARGUMENTS, "--workers", "2")
    assert "--workers divides one machine" in launched.stderr
    assert launched.ledger == []


@pytest.mark.parametrize("losses", [[], ["rank 1 is lost"]])
def test_a_signal_to_end_is_the_users_own_unless_a_rank_is_lost(
    losses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a loss it stops as at Ctrl-C, which keeps the evidence."""
    monkeypatch.setattr(ranks, "LOST_S", 0.01)
    crew = Crew(fingerprint=Fingerprint(target="t"))
    crew.losses.extend(losses)
    before = signal.getsignal(signal.SIGTERM)
    interrupted = False
    with ranks.surviving(crew):
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
