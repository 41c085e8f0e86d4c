"""One model for all tests of a module: the shipped one, in seconds."""

from __future__ import annotations

import pytest

import eredu


@pytest.fixture(scope="module")
def model() -> eredu.Model:
    return eredu.load("tiny-qwen3.5")
