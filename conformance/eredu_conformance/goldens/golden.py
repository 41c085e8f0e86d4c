"""One golden: what Transformers computes for one member of the zoo, stored as a few kilobytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eredu.files.json_reading import parse_json
from eredu_conformance.zoo import ZooMember, zoo_member

DATA = Path(__file__).parent / "data"

PROMPT: tuple[int, ...] = tuple((7 * i * i + 3 * i + 5) % 64 for i in range(48))
"""Prompt of every golden: 48 ids, longer than every boundary in the zoo."""

ROWS: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 8, 15, 16, 22, 23, 24, 25, 26, 40, 45)
"""Positions whose logits are stored: behind the first tokens, and on both sides of every boundary."""

GOLDENS: tuple[str, ...] = tuple(sorted(file.stem for file in DATA.glob("*.npz")))
"""Members that have a golden."""


@dataclass(frozen=True, eq=False)
class Golden:
    """Logits of a member.

    Attributes:
        name: The member.
        logits: Of the target at `ROWS`, shape (rows, vocabulary), float32.
        heads: Of its prediction heads at `ROWS`, by `head_golden_name`; each of shape (rows, vocabulary), float32.
        versions: What made them, by package.
        fingerprint: Of the member that they are of.
    """

    name: str
    logits: NDArray[np.float32]
    heads: Mapping[str, NDArray[np.float32]]
    versions: Mapping[str, str]
    fingerprint: NDArray[np.float64]


def head_golden_name(stage: int, *, after_norms: bool) -> str:
    """Name of a head's logits: stage 0 reads the target's hidden rows, stage 1 the outputs of stage 0.

    The row of position t has read token t + 1 + stage. With `after_norms`, hidden rows are taken behind the target's
    final norm, and outputs behind the stage's own; else both before.
    """
    return f"stage{stage}-{'after' if after_norms else 'before'}-norms"


def fingerprint(member: ZooMember) -> NDArray[np.float64]:
    """Numbers that change with any tensor or setting of a member, and not with a platform's last bits."""
    settings = hashlib.sha256(json.dumps(dict(member.config), sort_keys=True).encode()).digest()
    names = hashlib.sha256("\n".join(sorted(member.tensors)).encode()).digest()
    moments = [
        float(np.sum(np.abs(array, dtype=np.float64) * np.linspace(1, 2, array.size).reshape(array.shape)))
        for _, array in sorted(member.tensors.items())
    ]
    return np.array([*(int.from_bytes(digest[:4], "little") for digest in (settings, names)), sum(moments), *moments])


def write_golden(golden: Golden) -> Path:
    """Store a golden; return its file."""
    path = DATA / f"{golden.name}.npz"
    arrays: dict[str, Any] = {f"head-{name}": array for name, array in golden.heads.items()}
    np.savez_compressed(
        path,
        logits=golden.logits,
        fingerprint=golden.fingerprint,
        versions=np.array(json.dumps(dict(golden.versions), sort_keys=True)),
        **arrays,
    )
    return path


def golden_named(name: str) -> Golden:
    """The golden of a member.

    Raises `ValueError` where the member is no longer the one that the golden is of, `OSError` where there is none.
    """
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as stored:
        golden = Golden(
            name=name,
            logits=stored["logits"],
            heads={key.removeprefix("head-"): stored[key] for key in stored.files if key.startswith("head-")},
            versions=parse_json(str(stored["versions"])),
            fingerprint=stored["fingerprint"],
        )
    current = fingerprint(zoo_member(name))
    if current.shape != golden.fingerprint.shape or not np.allclose(current, golden.fingerprint, rtol=1e-6, atol=1e-9):
        raise ValueError(
            f"the zoo's {name} has changed since its golden was made; make it again (see goldens/README.md)"
        )
    return golden
