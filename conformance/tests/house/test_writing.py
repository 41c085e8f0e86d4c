"""Results are written by `eredu.files` alone, so that none is ever half there; what else writes says why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = (
    "eredu",
    "conformance/eredu_validation",
    "conformance/eredu_conformance/commands",
    "conformance/eredu_conformance/runner",
    "conformance/eredu_conformance/protocol",
    "benchmarks/eredu_benchmarks",
)
"""Where commands write: zoo, crafted checkpoints and goldens are written by tests and by hand."""
IN_PLACE = re.compile(
    r"\.write_(?:text|bytes)\(|open\([^)\n]*[\"'](?:[wax]b?\+?|r\+b?)[\"']|\bnp\.save\w*\(|\bjson\.dump\(|save_safetensors\(|"
    r"\bsave_file\("
)
REASONS = {
    "eredu/files/": "the writer itself",
    "eredu/commands/fetch.py": "inside a folder of its own, and renamed from it",
    "eredu/mlx/adapter.py": "inside a temporary folder",
    "eredu/convert/heads.py": "inside a folder that is written aside",
    "conformance/eredu_validation/workers/worker_messages.py": "into memory",
    "conformance/eredu_validation/evidence/kept_bets.py": "into memory",
    "benchmarks/eredu_benchmarks/training/": "by hand, once, where models are trained",
    "benchmarks/eredu_benchmarks/overlap_pair.py": "inside a temporary folder",
    "benchmarks/eredu_benchmarks/random_checkpoint.py": "a model of random weights, made again where it is broken",
    "benchmarks/eredu_benchmarks/quantise_draft.py": "inside a folder that is written aside",
}
"""Files, and folders, that write by themselves."""


def test_results_are_written_aside() -> None:
    found = {
        file.relative_to(ROOT).as_posix()
        for room in ROOMS
        for file in (ROOT / room).rglob("*.py")
        if IN_PLACE.search(file.read_text(encoding="utf-8"))
    }
    unexplained = sorted(file for file in found if not any(file.startswith(place) for place in REASONS))
    assert unexplained == [], "write with eredu.files.aside_file or aside_folder, or give a reason above"
    assert [place for place in REASONS if not any(file.startswith(place) for file in found)] == [], "no longer so"


@pytest.mark.parametrize(
    ("line", "writes"),
    [
        ('path.write_text("x")', True),
        ('path.open("wb")', True),
        ("open(path, mode='a')", True),
        ("np.savez(path, a=a)", True),
        ('mx.save_safetensors("x", weights)', True),
        ('path.open("rb")', False),
        ('path.open(encoding="utf-8")', False),
        ("write_text(path, text)", False),
        ("with AsideFile(path) as file:", False),
    ],
)
def test_the_rule_tells_right_from_wrong(line: str, writes: bool) -> None:
    assert bool(IN_PLACE.search(line)) == writes
