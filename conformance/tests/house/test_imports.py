"""The arrows of the house, read off the import statements of every file: who may import whom, and no circles."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = {
    "eredu_spec": ROOT / "spec",
    "eredu_reference": ROOT / "reference",
    "eredu": ROOT,
    "eredu_conformance": ROOT / "conformance",
    "eredu_validation": ROOT / "conformance",
    "eredu_benchmarks": ROOT / "benchmarks",
}
ARROWS = {
    "eredu_spec": set(),
    "eredu_reference": {"eredu_spec"},
    "eredu": set(),
    "eredu_conformance": {"eredu_spec", "eredu_reference"},
    "eredu_validation": {"eredu"},
    "eredu_benchmarks": {"eredu"},
}
"""What each package may import of the others from anywhere in it."""

JUDGES = ("eredu_conformance.subjects.", "eredu_conformance.harness.", "eredu_conformance.faults.engine.")
"""The rooms of the suite that may reach for `eredu`: it is judged, or faults are planted in it."""

LAYERS = ("portable", "mlx", "families", "drafters", "engine", "model", "commands")
"""The layers of `eredu` from the ground up: each may import those before it."""

PORTABLE_OF_FAMILIES = re.compile(r"eredu\.families(\.registry|\.\w+\.facts)?")
"""What anybody may ask about a family."""

DOOR = {"eredu", *(f"eredu.{name}" for name in ("model", "session", "speculation", "stream"))}
"""The front door: the modules of the layer `model`."""

LAST_MOVE = {"eredu.commands.main", "eredu.commands.engine_opening", "eredu.commands.foreign_engine"}
"""Commands that still import the validator when they are loaded."""

MLX = {"mlx", "mlx_lm", "mlx_vlm"}


class Import(NamedTuple):
    """One imported module.

    Attributes:
        source: Module that imports.
        target: Module that is imported.
        lazy: Whether it happens inside a function.
        typing: Whether it happens for the type checker only.
    """

    source: str
    target: str
    lazy: bool = False
    typing: bool = False

    @property
    def package(self) -> str:
        """Top-level name of the imported module."""
        return self.target.partition(".")[0]


def modules_of(package: str) -> dict[str, Path]:
    """Every module of a package by name."""
    root = PACKAGES[package]
    files = sorted((root / package).rglob("*.py"))
    names = {}
    for file in files:
        parts = file.relative_to(root).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return names


MODULES = {package: modules_of(package) for package in PACKAGES}
KNOWN = {name for modules in MODULES.values() for name in modules}


def imports_in(source: str, text: str, known: set[str]) -> list[Import]:
    """Imports of a module's text. `from a import b` names a.b where that is one of the `known` modules, else a."""
    found: list[Import] = []

    def visit(node: ast.AST, *, lazy: bool, typing: bool) -> None:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.Import(names=names):
                    found.extend(Import(source, alias.name, lazy, typing) for alias in names)
                case ast.ImportFrom(module=module, names=names, level=level):
                    assert level == 0, f"{source} imports relatively; write the whole name"
                    assert module is not None
                    for alias in names:
                        inner = f"{module}.{alias.name}"
                        found.append(Import(source, inner if inner in known else module, lazy, typing))
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                    visit(child, lazy=True, typing=typing)
                case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                    visit(child, lazy=lazy, typing=True)
                case _:
                    visit(child, lazy=lazy, typing=typing)

    visit(ast.parse(text), lazy=False, typing=False)
    return found


def imports_of(package: str) -> Iterator[Import]:
    """Imports of all modules of a package."""
    for name, file in MODULES[package].items():
        yield from imports_in(name, file.read_text(encoding="utf-8"), KNOWN)


def layer_of(module: str) -> str:
    """Layer of a module of `eredu`."""
    if module in DOOR:
        return "model"
    part = [*module.split("."), ""][1]
    return "portable" if PORTABLE_OF_FAMILIES.fullmatch(module) or part not in LAYERS else part


def room_of(module: str) -> str:
    """Package and folder of a module."""
    return ".".join(module.split(".")[:2])


def violations(found: Import) -> Iterator[str]:
    """What an import breaks."""
    source = found.source.partition(".")[0]
    arrow = f"{found.source} imports {found.target}"
    if found.package in PACKAGES and found.package != source and found.package not in ARROWS[source]:
        if source == "eredu" and layer_of(found.source) == "commands":
            late = found.source in LAST_MOVE and found.package == "eredu_validation"
            if not (found.lazy or found.typing or late):
                yield f"{arrow} when it is loaded; only inside a function"
        elif source == "eredu_validation" and room_of(found.target) == "eredu_conformance.protocol":
            return
        elif not f"{found.source}.".startswith(JUDGES):
            yield f"{arrow}, against the arrows between packages"
        elif found.package not in {"eredu", "eredu_validation"}:
            yield f"{arrow}; subjects may reach for eredu and the evidence, and for nothing else"
    if source == "eredu":
        yield from _layer_violations(found, arrow)
    if source in {"eredu_spec", "eredu_reference"}:
        allowed = {source, *ARROWS[source], *(["numpy"] if source == "eredu_reference" else [])}
        if found.package not in allowed and found.package not in sys.stdlib_module_names:
            yield f"{arrow}, which is neither the standard library nor one of {sorted(allowed)}"


def _layer_violations(found: Import, arrow: str) -> Iterator[str]:
    layer = layer_of(found.source)
    if layer == "portable" and found.package in MLX:
        yield f"{arrow}, but {found.source} is portable"
    if found.package != "eredu":
        return
    if LAYERS.index(layer_of(found.target)) > LAYERS.index(layer):
        yield f"{arrow}: an arrow from {layer} up to {layer_of(found.target)}"


def circles(imports: list[Import]) -> list[str]:
    """Modules that import each other in a circle while they are loaded, one text a circle."""
    edges: dict[str, set[str]] = {}
    for found in imports:
        if not (found.lazy or found.typing) and found.source != found.target:
            edges.setdefault(found.source, set()).add(found.target)
    done: set[str] = set()
    result: list[str] = []

    def follow(module: str, path: tuple[str, ...]) -> None:
        if module in path:
            result.append(" -> ".join((*path[path.index(module) :], module)))
            return
        if module in done:
            return
        for target in sorted(edges.get(module, ())):
            follow(target, (*path, module))
        done.add(module)

    for module in sorted(edges):
        follow(module, ())
    return result


@pytest.mark.parametrize("package", PACKAGES)
def test_every_import_follows_the_arrows(package: str) -> None:
    imports = list(imports_of(package))
    assert imports, f"{package} imports nothing, so this test read nothing"
    assert [broken for found in imports for broken in violations(found)] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles([found for package in PACKAGES for found in imports_of(package)]) == []


@pytest.mark.parametrize(
    ("source", "text", "wrong"),
    [
        ("eredu_spec.law", "import fractions", 0),
        ("eredu_spec.law", "import numpy", 1),
        ("eredu_spec.law", "from eredu_reference.rows import Row", 2),
        ("eredu_reference.rows", "import numpy as np\nfrom eredu_spec import randomness", 0),
        ("eredu_reference.rows", "import scipy.stats", 1),
        ("eredu_reference.rows", "def f():\n    from eredu.contract.options import X", 2),
        ("eredu.contract.statistics", "import mlx.core as mx", 1),
        ("eredu.text.stops", "def f():\n    import mlx.core as mx", 1),
        ("eredu.scheduling.scheduler", "from eredu.engine.load import load", 1),
        ("eredu.mlx.rows", "import mlx.core as mx\nfrom eredu.contract.options import X", 0),
        ("eredu.mlx.rows", "from eredu.families.qwen3 import X", 1),
        ("eredu.families.qwen3", "from eredu.engine.load import load", 1),
        ("eredu.engine.load", "from eredu.families.qwen3 import X", 0),
        ("eredu.engine.load", "from eredu.commands.main import run", 1),
        ("eredu.engine.load", "def f():\n    from eredu_validation.measures.law import Goal", 1),
        ("eredu_validation.measures.law", "from eredu.engine.load import load", 0),
        ("eredu_validation.evidence.ledger", "from eredu_benchmarks.pair import X", 1),
        ("eredu_validation.command.engine", "from eredu_conformance.protocol import X", 0),
        ("eredu_validation.command.engine", "from eredu_conformance.checks import X", 1),
        ("eredu.families.qwen3.facts", "import mlx.core as mx", 1),
        ("eredu.families.qwen3.heads", "import mlx.core as mx", 0),
        ("eredu.checkpoints.opened", "from eredu.families.registry import X", 0),
        ("eredu.checkpoints.opened", "from eredu.families.qwen3.heads import X", 1),
        ("eredu.drafters.assistant", "from eredu.families.qwen3.heads import X", 0),
        ("eredu.drafters.assistant", "from eredu.engine.executor import X", 1),
        ("eredu.engine.executor", "from eredu.drafters.assistant import X", 0),
        ("eredu.engine.executor", "from eredu.model import X", 1),
        ("eredu", "from eredu.model import load", 0),
        ("eredu.session", "if TYPE_CHECKING:\n    from eredu.engine.mlx_backend import X", 0),
        ("eredu.session", "def f():\n    from eredu.commands.pair import X", 1),
        ("eredu.loaded", "if TYPE_CHECKING:\n    from eredu.session import X", 1),
        ("eredu.commands.bench", "def f():\n    from eredu_benchmarks import pair", 0),
        ("eredu.commands.bench", "from eredu_benchmarks import pair", 1),
        ("eredu.engine.load", "def f():\n    from eredu_spec import law", 1),
        ("eredu_conformance.law.g_test", "from eredu_reference.plain import decode_plain", 0),
        ("eredu_conformance.law.g_test", "def f():\n    from eredu.contract.options import X", 1),
        ("eredu_conformance.subjects.tables", "from eredu.contract.options import X", 0),
        ("eredu_conformance.subjects.tables", "from eredu_benchmarks.pair import X", 1),
        ("eredu_conformance.faults.engine.schedule", "from eredu.contract.options import X", 0),
        ("eredu_conformance.faults.order", "from eredu.contract.options import X", 1),
        ("eredu_benchmarks.pair", "from eredu.contract.options import X", 0),
        ("eredu_benchmarks.pair", "from eredu_reference.plain import X", 1),
    ],
)
def test_the_arrows_tell_right_from_wrong(source: str, text: str, wrong: int) -> None:
    broken = [line for found in imports_in(source, text, KNOWN) for line in violations(found)]
    assert len(broken) == wrong, broken


def test_a_circle_is_seen() -> None:
    ring = [Import("a", "b"), Import("b", "c"), Import("c", "a"), Import("c", "d")]
    assert circles(ring) == ["a -> b -> c -> a"]
    assert circles([*ring[:2], ring[2]._replace(lazy=True)]) == []
