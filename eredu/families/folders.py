"""What lies in the folders of the families, found by the name of the file: `heads`, `patches`, `recurrence`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from eredu.families.registry import FAMILIES


@cache
def parts_named(name: str) -> dict[str, ModuleType]:
    """The file of that name of every folder that has one, by folder."""
    modules = {family.folder: f"{__package__}.{family.folder}.{name}" for family in FAMILIES}
    return {folder: import_module(module) for folder, module in modules.items() if find_spec(module) is not None}
