"""A target and a draft checkpoint with chosen laws p and q, and a prompt that both are stated for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from eredu_conformance.crafted.checkpoint import CraftedCheckpoint


class PairDirectories(NamedTuple):
    """Where a written pair lies."""

    target: Path
    draft: Path


@dataclass(frozen=True, eq=False)
class CheckpointPair:
    """What an engine of speculative decoding is given.

    Attributes:
        name: Unique, lower case, hyphens.
        target: The checkpoint whose law p the output must follow.
        draft: The checkpoint that proposes, by its own law q.
        prompt: Ids that both laws are stated for.
        aim: What the pair brings out, in a sentence.
    """

    name: str
    target: CraftedCheckpoint
    draft: CraftedCheckpoint
    prompt: tuple[int, ...]
    aim: str

    def __post_init__(self) -> None:
        if self.target.vocabulary != self.draft.vocabulary:
            raise ValueError(
                f"{self.name}: the target has {self.target.vocabulary} ids and the draft {self.draft.vocabulary}; "
                "a pair shares one vocabulary"
            )
        self.target.check_history(self.prompt)
        self.draft.check_history(self.prompt)

    @property
    def context_limit(self) -> int:
        """Tokens, prompt and output together, that fit into both."""
        return min(self.target.context_limit, self.draft.context_limit)

    def write(self, directory: Path) -> PairDirectories:
        """Write both checkpoints under `directory`."""
        return PairDirectories(self.target.write(directory / "target"), self.draft.write(directory / "draft"))
