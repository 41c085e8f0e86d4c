"""Every member of the zoo with prediction heads: with two of them where the zoo has it so."""

from __future__ import annotations

from pathlib import Path

import pytest

from eredu.engine.checkpoint import LoadedCheckpoint, load_checkpoint
from eredu_conformance.zoo import MEMBERS, ZooMember, zoo_edges, zoo_member

HEADED = [
    f"{name}+two-heads" if f"{name}+two-heads" in zoo_edges() else name for name in MEMBERS if zoo_member(name).heads
]


LIKE_ANOTHER = {"glm-4.7-flash", "glm-5", "qwen3.5-moe"}
"""Members whose heads are another's in all but their numbers: the nightly run has them."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.nightly) if name in LIKE_ANOTHER else name for name in HEADED],
)
def member(request: pytest.FixtureRequest) -> ZooMember:
    """Each of them."""
    return zoo_member(request.param)


@pytest.fixture(scope="module")
def directory(member: ZooMember, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its published directory, which no test changes."""
    return member.write(tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="module")
def checkpoint(directory: Path) -> LoadedCheckpoint:
    """The member in memory, with its heads."""
    return load_checkpoint(directory, tokenizer=None)
