"""Expected failures: read from the adopter's file, matched strictly."""

from __future__ import annotations

from pathlib import Path

import pytest

from eredu_conformance.protocol import ExpectedFailure, ExpectedFailures, MessageError, Standing, read_expected_failures

FILE = """
subject = "mlx-lm"

[[expected]]
check = "state.window-*"
reason = "rejected rows stay in a full rotating cache"
version = "0.32.*"

[[expected]]
check = "path.penalty"
reason = "the prompt is left out of the history"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "expected.toml"


def test_file(path: Path) -> None:
    path.write_text(FILE)
    expected = read_expected_failures(path, subject="mlx-lm")
    assert expected.entries == (
        ExpectedFailure(check="state.window-*", reason="rejected rows stay in a full rotating cache", version="0.32.*"),
        ExpectedFailure(check="path.penalty", reason="the prompt is left out of the history"),
    )
    path.write_text('subject = "x"')
    assert read_expected_failures(path, subject="x") == ExpectedFailures(subject="x")


@pytest.mark.parametrize(
    ("check", "version", "passed", "standing"),
    [
        ("state.window-4", "0.32.2", False, Standing.EXPECTED_FAILURE),
        ("state.window-4", "0.32.2", True, Standing.UNEXPECTED_PASS),
        ("state.window-4", "0.33.0", False, Standing.FAILED),
        ("state.window-4", "0.33.0", True, Standing.PASSED),
        ("path.penalty", "0.33.0", False, Standing.EXPECTED_FAILURE),
        ("path.penalty-2", "0.32.2", False, Standing.FAILED),
        ("law.table", "0.32.2", True, Standing.PASSED),
    ],
)
def test_standing(path: Path, check: str, version: str, passed: bool, standing: Standing) -> None:
    path.write_text(FILE)
    expected = read_expected_failures(path, subject="mlx-lm")
    assert expected.standing(check, version, passed=passed) is standing
    assert standing.is_news == (standing in {Standing.FAILED, Standing.UNEXPECTED_PASS})


def test_entries_without_a_check_are_found(path: Path) -> None:
    path.write_text(FILE)
    expected = read_expected_failures(path, subject="mlx-lm")
    window, penalty = expected.entries
    assert expected.unmatched(["state.window-4", "path.penalty"], "0.32.2") == ()
    assert expected.unmatched(["path.penalty"], "0.32.2") == (window,)
    assert expected.unmatched([], "0.33.0") == (penalty,), "the window entry is about another version"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("subject = ", "not TOML"),
        ("", r"lacks \['subject'\]"),
        ('subject = "other"', "about the subject 'other', the run about 'mlx-lm'"),
        ('subject = "mlx-lm"\nexpected = 3', "write \\[\\[expected\\]\\]"),
        ('subject = "mlx-lm"\n[[expected]]\ncheck = "a"', r"expected\[0\] lacks \['reason'\]"),
        ('subject = "mlx-lm"\n[[expected]]\ncheck = "a"\nreason = " "', "say why 'a' fails"),
        (
            'subject = "mlx-lm"\n[[expected]]\ncheck = "a"\nreason = "b"\nversions = "1"',
            r"unknown members \['versions'\]",
        ),
        ('subject = "mlx-lm"\n[[expected]]\ncheck = 1\nreason = "b"', r"check is 1; expected a string"),
    ],
)
def test_wrong_files(path: Path, content: str, complaint: str) -> None:
    path.write_text(content)
    with pytest.raises(MessageError, match=complaint):
        read_expected_failures(path, subject="mlx-lm")
