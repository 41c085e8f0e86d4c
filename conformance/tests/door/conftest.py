"""The shipped model with its head, and a crafted pair whose draft is right about two times of three."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

import eredu
from eredu.engine.mlx_backend import MlxBackend
from eredu_conformance.crafted import PairDirectories, crafted_pair


@pytest.fixture(scope="module")
def model() -> eredu.Model:
    return eredu.load("tiny-qwen3.5")


@pytest.fixture(scope="session")
def directories(tmp_path_factory: pytest.TempPathFactory) -> PairDirectories:
    return crafted_pair("order-2").write(tmp_path_factory.mktemp("order-2"))


@pytest.fixture(scope="module")
def pair(directories: PairDirectories) -> eredu.Model:
    return eredu.load(directories.target, assistant=directories.draft)


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The executors that are lent right now."""
    executors: list[Any] = []

    def watched(lend: Any) -> Any:
        @contextmanager
        def lending(*arguments: Any) -> Iterator[Any]:
            inner: AbstractContextManager[Any] = lend(*arguments)
            with inner as executor:
                executors.append(executor)
                try:
                    yield executor
                finally:
                    executors.remove(executor)

        return lending

    for name in ("plain_executor", "speculative_executor"):
        monkeypatch.setattr(MlxBackend, name, watched(getattr(MlxBackend, name)))
    return executors
