"""A backend without speculation is refused by mypy, and by a TypeError at run time; nothing falls back silently."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from eredu.contract.backend import GenerationBackend
from eredu.contract.executor import SpeculativeExecutor
from eredu.contract.terminal import OutputText
from eredu.loaded import LoadedModel
from eredu.prepared import PreparedRequest

ROOT = Path(__file__).parents[3]

PROGRAM = """
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any
from eredu.contract.backend import GenerationBackend
from eredu.contract.executor import SpeculativeExecutor
from eredu.engine.mlx_backend import Assistant, MlxBackend
from eredu.loaded import LoadedModel
from eredu.prepared import PreparedRequest
from eredu.contract.terminal import OutputText


class PlainBackend(GenerationBackend):
    @property
    def name(self) -> str:
        return "plain"

    @property
    def eos_ids(self) -> frozenset[int]:
        return frozenset()

    def output_text(self, stop_strings: Sequence[str]) -> OutputText | None:
        return None

    def plain_executor(self) -> AbstractContextManager[SpeculativeExecutor[Any, Any, Any]]:
        raise NotImplementedError


def use(plain: LoadedModel[PlainBackend], mlx: LoadedModel[MlxBackend], request: PreparedRequest) -> None:
    plain.generate_prepared_chat([request])
    mlx.generate_prepared_chat([request])
    {call}
"""


def mypy(tmp_path: Path, call: str) -> tuple[int, str]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("{call}", call), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "call",
    [
        "mlx.generate_prepared_chat_mtp(request)",
        "drafter: Assistant | None = None; mlx.generate_prepared_chat_mtp_batch([request], drafter)",
    ],
)
def test_the_mlx_backend_passes(tmp_path: Path, call: str) -> None:
    assert mypy(tmp_path, call) == (0, "Success: no issues found in 1 source file\n")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("plain.generate_prepared_chat_mtp(request)", "Invalid self argument"),
        ("plain.generate_prepared_chat_mtp_batch([request])", "Invalid self argument"),
        ('mlx.generate_prepared_chat_mtp(request, "a path")', "arg-type"),
    ],
)
def test_a_backend_or_a_drafter_of_the_wrong_kind_fails(tmp_path: Path, call: str, message: str) -> None:
    status, output = mypy(tmp_path, call)
    assert status == 1
    assert message in output


class PlainBackend(GenerationBackend):
    name = "plain"
    eos_ids: frozenset[int] = frozenset()

    def output_text(self, stop_strings: Sequence[str]) -> OutputText | None:
        return None

    def plain_executor(self) -> AbstractContextManager[SpeculativeExecutor[Any, Any, Any]]:
        raise AssertionError("a silent fall back to plain decoding")


# rule: capability.no-silent-fallback
def test_a_backend_without_speculation_is_a_type_error_at_run_time() -> None:
    model: Any = LoadedModel(PlainBackend())
    request = PreparedRequest(prompt=(1,))
    with pytest.raises(TypeError, match="PlainBackend cannot decode with multi-token prediction"):
        model.generate_prepared_chat_mtp(request)
    with pytest.raises(TypeError, match="generate_prepared_chat for plain"):
        model.generate_prepared_chat_mtp_batch([request])
    assert not model.mtp_capability().is_ready
