"""Every family that eredu knows: one line a folder, and how its facts are found by the names that files use.

A family that is not listed is refused by inspection: guessing that its caches roll back would be the one mistake that
speculation cannot survive.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from eredu.checkpoints.config import HEADS_ALONE
from eredu.checkpoints.family import Family
from eredu.families.deepseek import facts as deepseek
from eredu.families.deepseek_v4 import facts as deepseek_v4
from eredu.families.ernie import facts as ernie
from eredu.families.exaone import facts as exaone
from eredu.families.gemma import facts as gemma
from eredu.families.glm import facts as glm
from eredu.families.inkling import facts as inkling
from eredu.families.llama import facts as llama
from eredu.families.longcat import facts as longcat
from eredu.families.mimo import facts as mimo
from eredu.families.muse import facts as muse
from eredu.families.nemotron import facts as nemotron
from eredu.families.plain import facts as plain
from eredu.families.qwen import facts as qwen
from eredu.families.step import facts as step

FOLDERS = (
    plain, llama, gemma, muse, qwen, nemotron, inkling, glm, mimo, ernie, longcat, step, exaone, deepseek, deepseek_v4,
)  # fmt: skip
FAMILIES: tuple[Family, ...] = tuple(family for folder in FOLDERS for family in folder.FAMILIES)

MODEL_TYPES = {name: family for family in FAMILIES for name in (*family.model_types, *family.assistants)}
"""Families by `model_type` of config.json."""
RUN_HEADS = tuple(
    sorted(name for family in FAMILIES if family.heads and family.heads.runs for name in family.head_types)
)
"""`model_type`s whose heads eredu runs."""
LENDING = frozenset(name for family in FAMILIES for name in family.lends_attention)
"""mlx-lm's decoders in which a cache may attend for itself."""
ARCHITECTURES = {name: family for family in FAMILIES for name in (*family.gguf, *family.gguf_assistants)}
"""Families by `general.architecture` of GGUF."""


def find_family(model_type: str) -> Family | None:
    """The family of a `model_type`, of a directory of heads alone too; None where eredu does not know it."""
    return MODEL_TYPES.get(model_type.removesuffix(HEADS_ALONE))


@cache
def parts_named(name: str) -> dict[str, ModuleType]:
    """The file of that name (`heads`, `patches`, `recurrence`) of every folder that has one, by folder."""
    modules = {family.folder: f"{__package__}.{family.folder}.{name}" for family in FAMILIES}
    return {folder: import_module(module) for folder, module in modules.items() if find_spec(module) is not None}
