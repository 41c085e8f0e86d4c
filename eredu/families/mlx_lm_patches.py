"""Where mlx-lm's decoder is not the published model, or computes a block otherwise than its rows: patched once loaded.

Each patch changes the modules of a few classes of mlx-lm, in place, and says why. The patches of a family are in
`patches.py` of its folder; a test of each fails when mlx-lm no longer needs it (`conformance/tests/heads`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import mlx.nn as nn

from eredu.families.folders import parts_named
from eredu.mlx.adapter import LanguageModel, class_of, evaluate_model

Methods = Callable[[type[Any]], dict[str, Any]]
"""Makes the methods of a subclass from the class that it is to be derived from."""
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
    _apply(cast(nn.Module, model), {**_by_class(of_blocks=False), **_by_class(of_blocks=True)})


def patch_layers(module: nn.Module) -> None:
    """Patch decoder layers, a head's too, whose blocks of rows may be computed in any way; again after a cast."""
    _apply(module, _by_class(of_blocks=False))


def override(module: Any, methods: Methods) -> None:
    """Give one module a subclass of its class, under the same name, with other methods; once."""
    kind: Any = type(module)
    if methods not in getattr(kind, _CHANGED, ()):
        module.__class__ = _subclass(kind, methods)


@cache
def known_patches() -> tuple[Patch, ...]:
    """The patches of all folders."""
    return tuple(patch for part in parts_named("patches").values() for patch in part.PATCHES)


def _apply(module: nn.Module, patches: dict[str, tuple[Patch, ...]]) -> None:
    for _, part in module.named_modules():
        for patch in patches.get(class_of(part), ()):
            patch.change(part)
    evaluate_model(module)


@cache
def _by_class(*, of_blocks: bool) -> dict[str, tuple[Patch, ...]]:
    wanted = [patch for patch in known_patches() if patch.of_blocks == of_blocks]
    classes = {name for patch in wanted for name in patch.classes}
    return {name: tuple(patch for patch in wanted if name in patch.classes) for name in classes}


@cache
def _subclass(original: type[Any], methods: Methods) -> type[Any]:
    made = (*getattr(original, _CHANGED, ()), methods)
    return type(
        original.__name__, (original,), {**methods(original), _CHANGED: made, "__module__": original.__module__}
    )
