"""Where mlx-lm's decoder is not the published model, or computes a block otherwise than its rows: patched once loaded.

Each patch changes the modules of a few classes of mlx-lm, in place, and says why. The patches of a family are in
`patches.py` of its folder; a test of each fails when mlx-lm no longer needs it (`test_patches.py`).

mlx-lm has two formulas for some layers. Latent attention (DeepSeek) folds its key and value projections into query and
output for one row, and unfolds the latents for several; Mamba 2 (Nemotron-H) runs its recurrence for one row and its
chunked form for several. Both pairs agree on paper and differ by about 1e-5 in float32, so a verified row would not be
the decoded row, nor what stays in the caches. Patches `of_blocks` take the formula of one row for blocks of up to
`BLOCK_ROWS` rows: verified rows then equal decoded rows as far as the kernels below them do, which on the stock CPU
wheel is bit for bit. Longer feeds, which only prefill makes, keep the fast form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import mlx.nn as nn

from eredu.contract.options import MAX_PROPOSALS
from eredu.families.registry import parts_named
from eredu.mlx.adapter import LanguageModel, class_of, evaluate_model

Methods = Callable[[type[Any]], dict[str, Any]]
"""Makes the methods of a subclass from the class that it is to be derived from."""
BLOCK_ROWS = MAX_PROPOSALS + 1
"""Rows of the longest verification: the leading token and the proposals."""
NOTED_ROWS = 17
"""Rows of the longest block whose states are kept for rollback: more would cost more memory than time."""
_CHANGED = "_eredu_patches"


@dataclass(frozen=True)
class Patch:
    """One place where mlx-lm is changed.

    Attributes:
        name: In a few words.
        reason: What mlx-lm does, and what is right.
        classes: Classes that are changed, as module and class in `mlx_lm.models`: `deepseek_v3.MoEGate`.
        change: Changes one module of these classes in place; doing it again changes nothing.
        of_blocks: Whether it makes the rows of a block those of decoding. Only a target needs that: a head's blocks may
            be computed in any way.
    """

    name: str
    reason: str
    classes: tuple[str, ...]
    change: Callable[[Any], None]
    of_blocks: bool = False


def patch_target(model: LanguageModel) -> None:
    """Patch a loaded decoder in place. Doing it again changes nothing; families without patches stay as they are."""
    _apply(cast(nn.Module, model), known_patches())


def patch_layers(module: nn.Module) -> None:
    """Patch decoder layers, a head's too, whose blocks of rows may be computed in any way; again after a cast."""
    _apply(module, tuple(patch for patch in known_patches() if not patch.of_blocks))


def override(module: Any, methods: Methods) -> None:
    """Give one module a subclass of its class, under the same name, with other methods; once."""
    kind: Any = type(module)
    if methods not in getattr(kind, _CHANGED, ()):
        module.__class__ = _subclass(kind, methods)


@cache
def known_patches() -> tuple[Patch, ...]:
    """The patches of all folders."""
    return tuple(patch for part in parts_named("patches").values() for patch in part.PATCHES)


def _apply(module: nn.Module, patches: tuple[Patch, ...]) -> None:
    for _, part in module.named_modules():
        for patch in patches:
            if class_of(part) in patch.classes:
                patch.change(part)
    evaluate_model(module)


@cache
def _subclass(original: type[Any], methods: Methods) -> type[Any]:
    made = (*getattr(original, _CHANGED, ()), methods)
    return type(
        original.__name__, (original,), {**methods(original), _CHANGED: made, "__module__": original.__module__}
    )
