"""How many processes of this machine draw for one `eredu validate`."""

from __future__ import annotations

import os
from pathlib import Path

import mlx.core as mx

from eredu.checkpoints.names import resolve_checkpoint
from eredu.contract.errors import OptionError
from eredu_validation.command.request import AUTO, ValidationRequest

MOST_AUTOMATIC = 4
"""Processes that `auto` takes at the most."""
WORTH = 500
"""Tokens to draw for each further process that `auto` takes: it has to load the checkpoint first."""
MEMORY_SHARE = 0.5
"""Share of the free memory that `auto` lets the checkpoints take."""


def wanted_workers(said: str) -> int | None:
    """The number that `--workers` gave; None for `auto`. Raises `OptionError` for anything else."""
    if said == AUTO:
        return None
    if said.isdecimal() and int(said) >= 1:
        return int(said)
    raise OptionError(f"--workers was {said!r}; expected a number from 1, or {AUTO}")


def automatic_workers(request: ValidationRequest, needed: int) -> int:
    """Processes that pay: cores, memory, and tokens to draw; one on a GPU, which is shared by all."""
    # Another engine takes the machine as it likes, and each process would start one.
    if mx.default_device().type != mx.DeviceType.cpu or request.subject is not None:
        return 1
    names = [request.target, *(name for name in (request.assistant, request.head) if name is not None)]
    weight = max(1, sum(_bytes_of(resolve_checkpoint(name)) for name in names))
    room = int(MEMORY_SHARE * available_memory() / weight)
    return max(1, min(usable_cores(), MOST_AUTOMATIC, room, needed // WORTH))


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int:
    """Bytes that are free or can be freed at once; all there are, where the system does not say."""
    table = Path("/proc/meminfo")
    if table.is_file():
        for line in table.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _bytes_of(checkpoint: Path) -> int:
    files = [checkpoint] if checkpoint.is_file() else checkpoint.glob("*.safetensors")
    return sum(file.stat().st_size for file in files)
