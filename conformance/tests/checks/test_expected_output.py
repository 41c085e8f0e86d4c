"""Expected outputs against the reference's plain decoding, and its endings by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from eredu_conformance.checks.expected_output import ExpectedOutput, sampling_of
from eredu_conformance.checks.path.options import SETTINGS, option_trial
from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import Finish, Request, RunOptions
from eredu_conformance.subjects.crafted_model import CraftedModel
from eredu_reference import Request as ReferenceRequest
from eredu_reference import decode_plain


@pytest.mark.parametrize("option", SETTINGS)
@pytest.mark.parametrize("name", ["table-near", "table-eos", "counts"])
def test_greedy_is_the_references_plain_decoding(name: str, option: str) -> None:
    request = option_trial(name, SETTINGS[option], depth=0).requests[0]
    target = crafted_pair(name).target
    plain = decode_plain(
        CraftedModel(target),
        ReferenceRequest(
            prompt=request.prompt,
            max_tokens=request.options.max_tokens,
            sampling=sampling_of(request.options),
        ),
    )
    assert ExpectedOutput(target, request).greedy().tokens == plain.tokens


@pytest.mark.parametrize("option", SETTINGS)
def test_each_option_moves_some_greedy_path(option: str) -> None:
    moved = []
    for name in ("table-near", "table-eos", "counts"):
        request = option_trial(name, SETTINGS[option], depth=0).requests[0]
        neutral = replace(request, options=RunOptions(max_tokens=request.options.max_tokens))
        target = crafted_pair(name).target
        moved.append(ExpectedOutput(target, request).greedy() != ExpectedOutput(target, neutral).greedy())
    assert any(moved), f"no check could tell whether {option} was ignored"


def _expected(**options: object) -> ExpectedOutput:
    pair = crafted_pair("cycle")
    return ExpectedOutput(pair.target, Request(prompt=pair.prompt, options=RunOptions(**options)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "tokens", "finish"),
    [
        ({"max_tokens": 3}, (4, 5, 6), Finish.LENGTH),
        ({"max_tokens": 3, "eos_ids": (6,)}, (4, 5, 6), Finish.EOS),
        ({"max_tokens": 3, "eos_ids": (6,), "stop_sequences": ((5, 6),)}, (4, 5, 6), Finish.STOP),
        ({"max_tokens": 9, "stop_sequences": ((3, 4), (7, 0))}, (4, 5, 6, 7, 0), Finish.STOP),
        ({"max_tokens": 9, "eos_ids": (5,), "grammar": (((4, 1),), ((5, 2),), ())}, (4, 5), Finish.GRAMMAR),
        ({"max_tokens": 99}, tuple((4 + i) % 8 for i in range(63)), Finish.CONTEXT),
    ],
)
def test_endings(options: dict[str, object], tokens: tuple[int, ...], finish: Finish) -> None:
    answer = _expected(**options).greedy()
    assert (answer.tokens, answer.finish) == (tokens, finish)


def test_the_law_is_a_law_and_stops_where_outputs_do() -> None:
    pair = crafted_pair("table-eos")
    options = RunOptions(max_tokens=4, temperature=1.0, eos_ids=(4,), frequency_penalty=0.5)
    law = ExpectedOutput(pair.target, Request(prompt=pair.prompt, options=options)).law()
    assert math.isclose(sum(law.values()), 1)
    assert {len(output) for output in law} == {1, 2, 3, 4}
    assert all(4 not in output[:-1] for output in law)
