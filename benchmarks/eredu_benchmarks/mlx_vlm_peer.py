"""mlx-vlm's own loops, timed beside eredu's on a checkpoint with prediction heads: plain, and its drafter, greedy.

The only module here that imports mlx-vlm, which is no dependency: whoever wants the comparison installs it
(0.7.10 was used). It loads the checkpoint with its own models, so the weights are in memory twice.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import mlx.core as mx

from eredu.contract.errors import OptionError
from eredu_benchmarks.run import Timing
from eredu_benchmarks.stopwatch import timed_steps

DTYPES = {"checkpoint": None, "float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}
"""What eredu's `--dtype` means for mlx-vlm, which has no counterpart of the quantised ones."""


@dataclass(frozen=True)
class VlmPeer:
    """A checkpoint as mlx-vlm loads it.

    Attributes:
        target: Its target.
        drafter: Its drafter.
    """

    target: Any
    drafter: Any

    @classmethod
    def load(cls, path: Path, *, dtype: str) -> VlmPeer:
        """Load target and drafter.

        Raises `OptionError` where mlx-vlm is not installed, or does not load this checkpoint, with its reason.
        """
        if importlib.util.find_spec("mlx_vlm") is None:
            raise OptionError("--peers compares prediction heads with mlx-vlm's; install it (pip install mlx-vlm)")
        if dtype not in DTYPES:
            raise OptionError(f"--peers cannot give mlx-vlm the dtype {dtype}; expected one of {', '.join(DTYPES)}")
        from mlx_vlm.speculative.drafters import load_drafter  # noqa: PLC0415 (no dependency)
        from mlx_vlm.utils import load_model  # noqa: PLC0415

        try:
            target = load_model(path)
            drafter, kind = load_drafter(str(path), kind="mtp")
        except Exception as error:  # whatever its loaders raise is its reason
            raise OptionError(f"--peers: mlx-vlm does not load {path.name}: {type(error).__name__}: {error}") from error
        if kind != "mtp":
            raise OptionError(f"--peers: mlx-vlm takes {path.name} for a {kind} drafter; expected prediction heads")
        for model in (target, drafter):
            if DTYPES[dtype] is not None:
                model.set_dtype(DTYPES[dtype])
        return cls(target, drafter)

    def decode_greedily(
        self, prompt: tuple[int, ...], *, proposals: int, max_tokens: int, eos_ids: frozenset[int]
    ) -> tuple[tuple[int, ...], Timing]:
        """Decode; `proposals` 0 takes its plain loop.

        Its loop never asks for more proposals than its own rule finds worth making, so a large K is a ceiling.

        Returns:
            The output ids, an end-of-sequence id included, and when they came.
        """
        started_s = time.perf_counter()
        return timed_steps(self._steps(prompt, proposals, max_tokens), started_s=started_s, eos_ids=eos_ids)

    def _steps(self, prompt: tuple[int, ...], proposals: int, max_tokens: int) -> Generator[list[int], None, None]:
        from mlx_vlm.generate.ar import generate_step  # noqa: PLC0415 (no dependency)

        drafting = {"draft_model": self.drafter, "draft_kind": "mtp", "draft_block_size": proposals + 1}
        steps = generate_step(
            mx.array([prompt], dtype=mx.uint32),
            self.target,
            None,
            None,
            max_tokens=max_tokens,
            temperature=0.0,
            **(drafting if proposals else {}),
        )
        with closing(steps):
            for token, _ in islice(steps, max_tokens):
                yield [int(token)]
