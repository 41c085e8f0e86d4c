"""The command that does one check again, and nothing else."""

from __future__ import annotations

import shlex

from eredu_conformance.protocol.opening import SubjectSource
from eredu_conformance.runner.result import CheckResult


def replay_command(source: SubjectSource, result: CheckResult) -> str:
    """A command line for a shell."""
    return f"eredu conformance {source.arguments} --check {shlex.quote(result.id)} --seed {result.seed}"


def writing_command(result: CheckResult) -> str | None:
    """A command line that writes the checkpoints of a failure, for use with anything else; None without a pair."""
    pair = result.case.get("pair")
    return None if pair is None else f"python -m eredu_conformance.crafted {shlex.quote(str(pair))} ./{pair}"
