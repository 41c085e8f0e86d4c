"""Where the matrix looks: the package under the rules and the tests beside the suite."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Places:
    """Folders to read.

    Attributes:
        root: What paths are taken from.
        implementation: The package `eredu`.
        tests: The tests; None where the suite is installed without them.
    """

    root: Path
    implementation: Path
    tests: Path | None


def installed_places() -> Places:
    """The places of this installation: a checkout of the repository has all, a wheel has no tests."""
    spec = find_spec("eredu")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the package eredu is not installed, so the matrix has no implementation to read")
    implementation = Path(spec.origin).resolve().parent
    tests = Path(__file__).resolve().parents[2] / "tests"
    return Places(implementation.parent, implementation, tests if tests.is_dir() else None)
