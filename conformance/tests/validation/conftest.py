"""A crafted pair whose law is known, planted faults, and whole command lines of `eredu validate`, of ranks too."""

from __future__ import annotations

import io
import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eredu.checkpoints.opening import open_checkpoint
from eredu.commands.main import main
from eredu.contract.options import AcceptanceRule, GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.engine.load import load_assistant, load_target
from eredu.mlx import acceptance
from eredu_conformance.crafted import PairDirectories, crafted_pair
from eredu_conformance.faults.engine.sampling import Q_LEFT_OUT, RESIDUAL_OF_THE_TARGET
from eredu_conformance.zoo import zoo_member
from eredu_validation.evidence import LEDGER_NAME, read_ledger
from eredu_validation.evidence.json_form import Batch
from eredu_validation.measures.prompts import EncodedPrompt
from eredu_validation.measures.subject import Subject

TEXT = tuple(np.random.default_rng(3).integers(1, 60, size=270).tolist())
PROMPTS = (EncodedPrompt("short", TEXT[:4], ("abc",)), EncodedPrompt("long", TEXT[:40]))
PLAIN = SamplingOptions(temperature=1.0)
PARTS = ("numerics", "state", "path", "benefit")


@dataclass(frozen=True)
class Ran:
    """What one command line did."""

    status: int
    stdout: str
    stderr: str


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> PairDirectories:
    """Laws p and q over a few ids that differ everywhere."""
    return crafted_pair("table").write(tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="session")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Subject]:
    """A recurrent target with a head of its own, and a llama with itself as its assistant."""
    options = GenerationOptions(max_tokens=24, sampling=PLAIN, eos_ids=frozenset(), max_proposals=3)
    made = {}
    for name in ("qwen3.5", "llama"):
        path = zoo_member(name).write(tmp_path_factory.mktemp(name))
        tokenizer = open_checkpoint(path).tokenizer
        assistant = load_assistant(path, tokenizer=tokenizer) if name == "llama" else None
        made[name] = Subject(
            model=load_target(path, tokenizer=tokenizer, with_heads=assistant is None, settle=False),
            assistant=assistant,
            options=options,
            schedule=MtpSchedulerOptions(),
        )
    return made


@pytest.fixture(params=["qwen3.5", "llama"])
def subject(request: pytest.FixtureRequest, subjects: dict[str, Subject]) -> Subject:
    return subjects[request.param]


@pytest.fixture
def prompts() -> tuple[EncodedPrompt, ...]:
    """A short prompt with a replay, and a longer one."""
    return PROMPTS


@pytest.fixture
def text() -> tuple[int, ...]:
    """Ids that every small model knows."""
    return TEXT


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Ran]:
    """Run `eredu ARGUMENTS` in this process, with a cache folder of its own."""
    monkeypatch.setenv("EREDU_CACHE", str(tmp_path / "cache"))

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b""), encoding="utf-8"))
        capsys.readouterr()
        status = main(list(arguments))
        printed = capsys.readouterr()
        return Ran(status, printed.out, printed.err)

    return run


@pytest.fixture
def law_only(command: Callable[..., Ran], pair: PairDirectories) -> Callable[..., tuple[Ran, dict[str, Any]]]:
    """Validate the law of the pair alone, and return its result too."""

    def run(place: Path, *arguments: str) -> tuple[Ran, dict[str, Any]]:
        result = place.parent / f"{place.name}.json"
        skips = [word for part in PARTS for word in ("--skip", part)]
        ran = command(
            *("validate", str(pair.target), "--assistant", str(pair.draft), "--resume", str(place), *skips),
            *("--max-tokens", "20", "--workers", "1", "--json", str(result), *arguments),
        )
        text = result.read_text(encoding="utf-8") if result.exists() else ""
        return ran, json.loads(text) if text else {}

    return run


FAULTS = {"ratio without q": Q_LEFT_OUT, "residual = p": RESIDUAL_OF_THE_TARGET}


@pytest.fixture(params=list(FAULTS))
def planted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A fault in the acceptance of every request."""
    name: str = request.param
    wrong = {AcceptanceRule.REJECTION: FAULTS[name].wrong_version()}
    monkeypatch.setattr("eredu.engine.verification.RULES", {**acceptance.RULES, **wrong})
    return name


SECONDS = 600
COMMAND = """
import os, signal, sys
from eredu.commands.main import main
from eredu_validation.session.law_run import LawRun
from eredu_validation.workers.worker import Worker

if os.environ.get("MLX_RANK") == sys.argv[1]:
    tell = Worker._tell

    def die(self, message):
        if message.kind == "tokens":
            os.kill(os.getpid(), signal.SIGKILL)
        tell(self, message)

    Worker._tell = die
    draw, left = LawRun.draw, [2]

    def die_at_third(*arguments):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return draw(*arguments)

    LawRun.draw = die_at_third
sys.exit(main(sys.argv[2:]))
"""
"""The command, in which one rank, or none, is killed while it draws: outputs of its own, or its share of all."""


LAUNCHER = "from mlx._distributed_utils.launch import main; main()"


@dataclass(frozen=True)
class Launched:
    """What the ranks printed, and the batches of the ledger that rank 0 kept."""

    stdout: str
    stderr: str
    ledger: tuple[Batch, ...]


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
    pair_models = (str(pair.target), "--assistant", str(pair.draft))

    def run(count: int, *arguments: str, dying: int | None = None, models: Sequence[str] = pair_models) -> Launched:
        script, place = tmp_path / "command.py", tmp_path / "ranks"
        script.write_text(COMMAND, encoding="utf-8")
        skips = [word for part in ("numerics", "state", "path", "benefit") for word in ("--skip", part)]
        command = [sys.executable, str(script), str(dying), "validate", *models, "--resume", str(place), *skips]
        start = started_by_launcher if dying is not None else partial(started_here, folder=tmp_path)
        stdout, stderr = start(count, [*command, *arguments])
        ledger = place / LEDGER_NAME
        lines = read_ledger(ledger).batches if ledger.exists() else ()
        return Launched(stdout, stderr, lines)

    return run
