"""Crafted checkpoints written once for a test session, and a random valid history for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from eredu_conformance.crafted import CraftedCheckpoint

Written = Callable[[CraftedCheckpoint], Path]
Histories = Callable[[CraftedCheckpoint], tuple[int, ...]]


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    directories: dict[str, Path] = {}

    def write(checkpoint: CraftedCheckpoint) -> Path:
        if checkpoint.name not in directories:
            directories[checkpoint.name] = checkpoint.write(tmp_path_factory.mktemp(checkpoint.name))
        return directories[checkpoint.name]

    return write


@pytest.fixture
def full_history() -> Histories:
    """A history as long as the context, drawn uniformly but for the ids that the law reserves for the beginning."""

    def draw(checkpoint: CraftedCheckpoint) -> tuple[int, ...]:
        generator = np.random.default_rng(7)
        start = checkpoint.prompt_start
        free = [token for token in range(checkpoint.vocabulary) if token not in start]
        rest = generator.choice(free, size=checkpoint.context_limit - len(start))
        return (*start, *(int(token) for token in rest))

    return draw
