"""The arrows of the house, read off the import statements of every file: who may import whom, and no circles.

Every import counts, those inside functions and those for the type checker alone too.
"""

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
ROOM_ARROWS = {
    ("eredu_conformance", "eredu.files.json_reading"),  # one bounded reader of JSON for all; it needs no engine
    ("eredu_conformance", "eredu.contract.message"),  # likewise, foreign strings made visible
    ("eredu_conformance.subjects", "eredu"),
    ("eredu_conformance.harness", "eredu"),
    ("eredu_conformance.faults.engine", "eredu"),  # faults are planted in it
    ("eredu_conformance.commands", "eredu.files"),  # writes results as the library does, and uses nothing else of it
    ("eredu_validation.foreign", "eredu_conformance.protocol"),
    ("eredu_conformance.validator_power", "eredu"),
    ("eredu_conformance.validator_power", "eredu_validation"),  # plants faults that the validator must find
}
"""Folders that may import more than their package: what of another one."""

LAYERS = (
    ("contract", "files"),
    ("scheduling", "text", "checkpoints", "prepared", "results", "loaded", "portable families"),
    ("mlx",),
    ("families",),
    ("drafters",),
    ("engine",),
    ("convert",),
    ("chat",),
    ("door",),
    ("commands", "server"),
)
"""The layers of `eredu` from the ground up: each may import its own and those before it."""
PORTABLE = LAYERS[0] + LAYERS[1]
"""What runs without MLX, and so imports nothing of it."""
PORTABLE_OF_FAMILIES = re.compile(r"eredu\.families(\.registry|\.\w+\.facts)?")
"""What anybody may ask about a family."""
MLX = {"mlx", "mlx_lm", "mlx_vlm"}

VALIDATION_LAYERS = ("evidence", "foreign", "measures", "workers", "session", "report", "command")
"""The layers of `eredu_validation`, likewise."""

LATE = {
    "eredu.model > eredu": "`import eredu` is quick: what loads a model is imported when one is loaded",
    "eredu.checkpoints.gguf_header > gguf": "slow, and only for GGUF files",
    "eredu.checkpoints.gguf_types > gguf": "likewise",
    "eredu.mlx.gguf_tensors > gguf": "likewise",
    "eredu.commands.convert > eredu.convert.convert": "MLX: what else is wrong with a command line is said at once",
    "eredu.commands.entry > eredu.commands.main": "signals are answered before anything is imported",
    "eredu.commands.fetch > eredu.commands.hub_download": "slow to import",
    "eredu.commands.inspect > eredu.engine.checkpoint": "MLX: what is wrong with the headers is said at once",
    "eredu.commands.inspect > eredu.commands.probing": "MLX, which headers do not need",
    "eredu.commands.pair > eredu.engine.load": "MLX: what else is wrong with a command line is said at once",
    "eredu_conformance.commands.conformance > eredu.files": "only where a report is written",
    "eredu_validation.command.validate > eredu_validation.command.run": "MLX, which neither --help nor merge needs",
    "eredu_validation.report.plots > matplotlib": "an extra",
    "eredu_benchmarks.command > eredu_benchmarks.comparison": "MLX, which --help does not need",
    "eredu_benchmarks.mlx_vlm_peer > mlx_vlm": "an extra",
    "eredu_conformance.commands.spec > eredu_conformance.matrix": "MLX, which the list of rules does not need",
    "eredu_conformance.checks.stateful.lock_step > eredu_conformance.checks.stateful.running": "Hypothesis, an extra",
    "eredu_conformance.checks.family > eredu_conformance.subjects": "eredu and MLX, which no other engine needs",
    "eredu_conformance.checks.family > eredu_conformance.harness.family_state": "likewise",
    "eredu_conformance.crafted.__main__ > eredu_conformance.checks.pairs": "the pairs of the checks, by their names",
    "eredu_conformance.validator_power.__main__ > eredu_conformance.validator_power": "MLX, for one table of two",
    "eredu_conformance.subjects.mlx_lm > eredu": "only for GGUF files, which mlx-lm itself does not read",
}
"""Who imports what inside functions, and why; below the top, names stand for all that lies in them."""


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

    @property
    def arrow(self) -> str:
        """The import in words."""
        return f"{self.source} imports {self.target}"


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


def lies_below(module: str, place: str) -> bool:
    """Whether a module is one of a folder's, or that very module."""
    return module == place or module.startswith(f"{place}.")


def room_of(module: str) -> str:
    """Room of a module of `eredu`: its folder; modules at the top are the door, where no layer names them."""
    if PORTABLE_OF_FAMILIES.fullmatch(module):
        return "portable families"
    part = module.split(".")[1] if "." in module else ""
    return part if any(part in layer for layer in LAYERS) else "door"


def layer_of(module: str) -> int:
    """Layer of a module of `eredu`, counted from the ground."""
    room = room_of(module)
    return next(number for number, rooms in enumerate(LAYERS) if room in rooms)


def violations(found: Import) -> Iterator[str]:
    """What an import breaks."""
    source = found.source.partition(".")[0]
    if found.package in PACKAGES and found.package != source and found.package not in ARROWS[source]:
        rooms = [target for room, target in ROOM_ARROWS if lies_below(found.source, room)]
        if not any(lies_below(found.target, target) for target in rooms):
            yield f"{found.arrow}, against the arrows between packages"
    if source == "eredu":
        yield from _layer_violations(found)
    if source == found.package == "eredu_validation":
        here, there = (_validation_layer(module) for module in (found.source, found.target))
        if there > here:
            yield f"{found.arrow}: an arrow from {VALIDATION_LAYERS[here]} up to {VALIDATION_LAYERS[there]}"
    if source in {"eredu_spec", "eredu_reference"}:
        allowed = {source, *ARROWS[source], *(["numpy"] if source == "eredu_reference" else [])}
        if found.package not in allowed and found.package not in sys.stdlib_module_names:
            yield f"{found.arrow}, which is neither the standard library nor one of {sorted(allowed)}"


def _layer_violations(found: Import) -> Iterator[str]:
    room = room_of(found.source)
    if room in PORTABLE and found.package in MLX:
        yield f"{found.arrow}, but {found.source} is portable"
    if found.package == "eredu" and layer_of(found.target) > layer_of(found.source):
        yield f"{found.arrow}: an arrow from {room} up to {room_of(found.target)}"


def _validation_layer(module: str) -> int:
    part = [*module.split("."), ""][1]
    return VALIDATION_LAYERS.index(part) if part in VALIDATION_LAYERS else 0


def reasons_of(found: Import) -> list[str]:
    """Entries of `LATE` that allow an import inside a function."""

    def allows(entry: str) -> bool:
        source, _, target = entry.partition(" > ")
        whole = source == found.source or ("." in source and lies_below(found.source, source))
        return whole and lies_below(found.target, target)

    return [entry for entry in LATE if allows(entry)]


def circles(imports: list[Import]) -> list[str]:
    """Modules that import each other in a circle, however they do, one text a circle."""
    edges: dict[str, set[str]] = {}
    for found in imports:
        if found.source != found.target:
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


def test_an_import_inside_a_function_has_a_reason() -> None:
    lazy = [found for package in PACKAGES for found in imports_of(package) if found.lazy]
    assert [found.arrow for found in lazy if not reasons_of(found)] == [], "import at the top, or give a reason above"
    used = {key for found in lazy for key in reasons_of(found)}
    assert LATE.keys() - used == set(), "reasons for what is not done any more"


def test_the_library_is_used_from_inside_in_one_place() -> None:
    """The validator stands on the contract and the front door; what it must measure from inside is in one module."""
    inside = {f"eredu.{room}" for room in ("mlx", "families", "drafters", "engine")}
    found = {
        each.source for each in imports_of("eredu_validation") if any(lies_below(each.target, room) for room in inside)
    }
    assert found == {"eredu_validation.measures.inside"}


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
        ("eredu.contract.statistics", "if TYPE_CHECKING:\n    from eredu.scheduling.scheduler import X", 1),
        ("eredu.text.stops", "def f():\n    import mlx.core as mx", 1),
        ("eredu.scheduling.scheduler", "from eredu.contract.options import X", 0),
        ("eredu.scheduling.scheduler", "from eredu.engine.load import load", 1),
        ("eredu.loaded", "from eredu.scheduling.scheduler import X", 0),
        ("eredu.loaded", "def f():\n    from eredu.engine.load import load", 1),
        ("eredu.mlx.rows", "import mlx.core as mx\nfrom eredu.contract.options import X", 0),
        ("eredu.mlx.rows", "from eredu.families.qwen3.heads import X", 1),
        ("eredu.mlx.rows", "from eredu.families.qwen3.facts import X", 0),
        ("eredu.families.qwen3.facts", "import mlx.core as mx", 1),
        ("eredu.families.qwen3.heads", "import mlx.core as mx", 0),
        ("eredu.families.qwen3.heads", "from eredu.engine.load import load", 1),
        ("eredu.checkpoints.opened", "from eredu.families.registry import X", 0),
        ("eredu.checkpoints.opened", "from eredu.families.qwen3.heads import X", 1),
        ("eredu.drafters.assistant", "from eredu.families.qwen3.heads import X", 0),
        ("eredu.drafters.assistant", "from eredu.engine.executor import X", 1),
        ("eredu.engine.executor", "from eredu.drafters.assistant import X", 0),
        ("eredu.engine.executor", "from eredu.model import X", 1),
        ("eredu.engine.load", "from eredu.commands.main import run", 1),
        ("eredu.engine.load", "import eredu", 1),
        ("eredu.model", "from eredu.engine.load import load", 0),
        ("eredu.commands.generate", "import eredu\nfrom eredu.model import Model", 0),
        ("eredu", "def __getattr__(n):\n    from eredu.engine import load", 0),
        ("eredu", "from eredu.model import load", 0),
        ("eredu.session", "if TYPE_CHECKING:\n    from eredu.engine.mlx_backend import X", 0),
        ("eredu.loaded", "from eredu.session import X", 1),
        ("eredu", "from eredu.commands.main import run", 1),
        ("eredu.commands.main", "def f():\n    from eredu_benchmarks import pair", 1),
        ("eredu.commands.main", "if TYPE_CHECKING:\n    from eredu_validation.command.validate import X", 1),
        ("eredu_validation.measures.law", "from eredu.engine.load import load", 0),
        ("eredu_validation.evidence.ledger", "from eredu_validation.measures.parts import Parts", 1),
        ("eredu_validation.workers.worker", "if TYPE_CHECKING:\n    from eredu_validation.session.session import X", 1),
        ("eredu_validation.foreign.engine", "from eredu_conformance.protocol import X", 0),
        ("eredu_validation.foreign.engine", "from eredu_conformance.checks import X", 1),
        ("eredu_validation.measures.law", "from eredu_conformance.protocol import X", 1),
        ("eredu_conformance.law.g_test", "from eredu_reference.plain import decode_plain", 0),
        ("eredu_conformance.law.g_test", "def f():\n    from eredu.contract.options import X", 1),
        ("eredu_conformance.commands.spec", "from eredu.commands.console import print_json", 1),
        ("eredu_conformance.subjects.tables", "from eredu.contract.options import X", 0),
        ("eredu_conformance.subjects.tables", "from eredu_validation.evidence import X", 1),
        ("eredu_conformance.subjects.tables", "from eredu_benchmarks.pair import X", 1),
        ("eredu_conformance.faults.engine.schedule", "from eredu.contract.options import X", 0),
        ("eredu_conformance.faults.order", "from eredu.contract.options import X", 1),
        ("eredu_benchmarks.pair", "from eredu.contract.options import X", 0),
        ("eredu_benchmarks.pair", "from eredu_reference.plain import X", 1),
    ],
)
def test_the_arrows_tell_right_from_wrong(source: str, text: str, wrong: int) -> None:
    known = KNOWN | {"eredu.engine.load"}
    broken = [line for found in imports_in(source, text, known) for line in violations(found)]
    assert len(broken) == wrong, broken


def test_a_circle_is_seen() -> None:
    ring = [Import("a", "b"), Import("b", "c"), Import("c", "a"), Import("c", "d")]
    assert circles(ring) == ["a -> b -> c -> a"]
    assert circles([*ring[:2], ring[2]._replace(lazy=True)]) == ["a -> b -> c -> a"]
    assert circles([*ring[:2], ring[2]._replace(typing=True)]) == ["a -> b -> c -> a"]
    assert circles([*ring[:2], ring[3]]) == []


def test_an_import_without_a_reason_is_seen() -> None:
    for target in ("gguf", "eredu.model"):
        lazy = imports_in("eredu.engine.load", f"def f():\n    import {target}", KNOWN)
        assert [reasons_of(found) for found in lazy] == [[]]
    lazy = imports_in("eredu.checkpoints.gguf_header", "def f():\n    from gguf.constants import X", KNOWN)
    assert [reasons_of(found) for found in lazy] == [["eredu.checkpoints.gguf_header > gguf"]]
