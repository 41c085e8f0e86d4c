"""What mypy strict sees of the front door: real types, one result for a prompt, a batch for several, and mistakes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

RIGHT = """
# mypy: disallow-any-expr
from pathlib import Path
from typing import Unpack, assert_type
import eredu
from eredu.contract.statistics import RequestStatistics

model = eredu.load(Path("x"), assistant="y", dtype="float32")
turn = {"role": "user", "content": "x"}
speculation = eredu.Speculation(assistant="y", proposals=3, acceptance="block", lookahead=False)
assert_type(model.generate("x", speculation=speculation), eredu.GenerationResult)
assert_type(model.generate([turn], speculation=None), eredu.GenerationResult)
assert_type(model.generate([1, 2], speculation="auto"), eredu.GenerationResult)
assert_type(model.generate((1, 2)), eredu.GenerationResult)
assert_type(model.generate(["x", "y"]), eredu.BatchResult)
assert_type(model.generate(("x", "y")), eredu.BatchResult)
assert_type(model.generate([[turn], [turn, turn]]), eredu.BatchResult)
assert_type(model.generate([[1], [2, 3]])[0].text, str)
def ask(text: str, **options: Unpack[eredu.RequestOptions]) -> eredu.GenerationResult:
    return model.generate(text, **options)
for event in model.stream(["x", "y"], max_tokens=3):
    if isinstance(event, eredu.TokensCommitted):
        assert_type(event.tokens, tuple[int, ...])
    else:
        assert_type(event.statistics, RequestStatistics)
with model.session(speculation=speculation) as session:
    number = session.add([turn], stop=["x"], logit_bias={3: 1.0})
    session.cancel(number)
    events = [event.request for event in session]
    assert_type(session.result(number).finish, eredu.FinishReason)
    assert_type(session.statistics().requests.emitted, int)
assert_type(model.tokenizer.encode("x"), tuple[int, ...])
assert_type(model.mtp_capability.is_ready, bool)
assert_type(model.speculation.reason, str)
"""
WRONG = {
    'model.generate(["x", 1])': "arg-type",
    'model.generate(["x", [1]])': "arg-type",
    "model.generate(3)": "call-overload",
    'model.generate({"role": "user"})': "call-overload",
    'model.generate("x", max_token=3)': "call-overload",
    'model.generate("x", max_tokens="3")': "call-overload",
    'model.generate("x", speculation=True)': "call-overload",
    'model.session().add(["x", "y"])': "arg-type",
    'eredu.Speculation(acceptance="maybe")': "arg-type",
    "eredu.Speculation(assistant=5)": "arg-type",
    "eredu.load(5)": "arg-type",
}


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy says of each line of the wrong program, and of the right one under an empty name."""
    folder = tmp_path_factory.mktemp("programs")
    right, wrong = folder / "right.py", folder / "wrong.py"
    right.write_text(RIGHT, encoding="utf-8")
    lines = ["import eredu", 'model = eredu.load("x")', *WRONG]
    wrong.write_text("\n".join(lines), encoding="utf-8")
    mypy = (sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"))
    ran = subprocess.run([*mypy, str(right), str(wrong)], capture_output=True, text=True, check=False, cwd=ROOT)
    found: dict[str, list[str]] = {}
    for said in ran.stdout.splitlines():
        place, _, message = said.partition(": error: ")
        if message:
            file, _, number = place.rpartition(":")
            found.setdefault(lines[int(number) - 1] if file.endswith("wrong.py") else "", []).append(said)
    return found


def test_right_programs_pass_without_any(complaints: dict[str, list[str]]) -> None:
    assert complaints.get("", []) == []


@pytest.mark.parametrize("line", WRONG)
def test_a_mistake_is_an_error(complaints: dict[str, list[str]], line: str) -> None:
    assert [said for said in complaints.get(line, []) if said.endswith(f"[{WRONG[line]}]")] != []
