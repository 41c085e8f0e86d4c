"""Options by keyword: every one arrives, and what cannot be is an `OptionError` that says what to write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eredu
from eredu.contract.errors import EreduError, OptionError
from eredu.contract.options import AcceptanceRule, GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.request_options import check_names, generation_options

WISH = eredu.Speculation(proposals=3, acceptance="block", lookahead_depth=5, lookahead=False, adaptive_lookahead=False)


def test_every_option_arrives() -> None:
    sampling: dict[str, Any] = {
        "temperature": 0.5,
        "top_k": 4,
        "top_p": 0.9,
        "min_p": 0.1,
        "logit_bias": {3: -1.0},
        "repetition_penalty": 1.1,
        "repeat_last_n": 7,
        "frequency_penalty": 0.2,
        "presence_penalty": 0.3,
    }
    given: Any = sampling | {
        "max_tokens": 9,
        "seed": 5,
        "stop": ["a", "b"],
        "stop_sequences": [[1, 2], [3]],
        "eos_ids": [7, 8],
    }
    assert generation_options(given, WISH.request) == GenerationOptions(
        max_tokens=9,
        sampling=SamplingOptions(**sampling),
        seed=5,
        acceptance=AcceptanceRule.BLOCK,
        max_proposals=3,
        lookahead_depth=5,
        eos_ids=frozenset({7, 8}),
        stop_sequences=((1, 2), (3,)),
        stop_strings=("a", "b"),
    )
    left = set(eredu.RequestOptions.__annotations__) - set(given)
    assert left == {"constraint", "raw"}
    assert WISH.schedule == MtpSchedulerOptions(lookahead=False, adaptive_lookahead=False)


def test_the_defaults_are_those_of_the_contract() -> None:
    assert generation_options({}, GenerationOptions()) == GenerationOptions()
    assert eredu.Speculation().request == GenerationOptions()
    assert eredu.Speculation().schedule == MtpSchedulerOptions()
    assert generation_options({"stop": "end"}, GenerationOptions()).stop_strings == ("end",)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("max_token", "did you mean max_tokens"),
        ("temp", "did you mean temperature"),
        ("max_new_tokens", "did you mean max_tokens"),
        ("stops", "did you mean stop"),
        ("spekulation", "did you mean speculation"),
        ("num_draft_tokens", r"did you mean speculation=eredu\.Speculation\(proposals=…\)"),
        ("draft_model", r"did you mean speculation=eredu\.Speculation\(assistant=…\)"),
        ("acceptance", r"did you mean speculation=eredu\.Speculation\(acceptance=…\)"),
        ("zzz", "there are speculation, max_tokens, temperature"),
    ],
)
def test_an_unknown_name_is_told_what_may_be_meant(name: str, meant: str) -> None:
    with pytest.raises(OptionError, match=rf"there is no option '{name}'; {meant}"):
        check_names([name], beside=("speculation",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": 0}, "max_tokens was 0; expected a whole number from 1"),
        ({"temperature": "hot"}, "temperature was 'hot'"),
        ({"logit_bias": [5]}, r"logit_bias was \[5\]; expected a dictionary"),
        ({"stop": 5}, "stop was 5; expected a text or a list of texts"),
        ({"stop": ""}, "stop holds an empty string"),
        ({"stop": [5]}, "stop holds 5; expected texts"),
        ({"stop_sequences": 5}, "stop_sequences was 5; expected a list of lists"),
        ({"stop_sequences": [5]}, "an entry of stop_sequences was 5"),
        ({"stop_sequences": ["ab"]}, "an entry of stop_sequences was 'ab'"),
        ({"stop_sequences": [[]]}, "stop_sequences holds an empty sequence"),
        ({"stop_sequences": [["a"]]}, "an id of stop_sequences was 'a'"),
        ({"eos_ids": 5}, "eos_ids was 5; expected a list of token ids"),
        ({"eos_ids": [[5]]}, r"an id of eos_ids was \[5\]"),
        ({"eos_ids": np.array([1])}, "an id of eos_ids was np.int64"),
        ({"seed": -1}, "seed was -1"),
        ({"seed": "x"}, "seed was 'x'"),
        ({"constraint": "json"}, "constraint was 'json'; expected a grammar's state"),
        ({"raw": "yes"}, "raw was 'yes'; expected True or False"),
    ],
)
def test_a_value_that_cannot_be_is_refused(options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        generation_options(options, GenerationOptions())


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"proposals": 99}, r"^proposals \(K\) was 99; expected a whole number from 0 to 64"),
        ({"acceptance": "maybe"}, "acceptance was 'maybe'; expected one of rejection, block, coupled"),
        ({"lookahead": 3}, "lookahead was 3; expected True or False"),
        ({"lookahead_depth": 1}, "lookahead_depth was 1"),
    ],
)
def test_a_speculation_that_cannot_be_is_refused(wish: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        eredu.Speculation(**wish)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"name": "/no/such"}, "'/no/such' is neither a path that exists nor one of the names"),
        ({"name": None}, "'None' is neither a path"),
        ({"name": "tiny-qwen3.5", "dtype": "int3"}, "dtype was 'int3'; expected one of checkpoint"),
        ({"name": "tiny-qwen3.5", "placement": "x"}, "placement was 'x'; expected one of auto"),
        ({"name": "tiny-qwen3.5", "assistant": "a", "head": "b"}, "assistant and head are two drafters for one target"),
    ],
)
def test_what_cannot_be_loaded_is_refused(call: Any, message: str) -> None:
    with pytest.raises(EreduError, match=message):
        eredu.load(**call)
